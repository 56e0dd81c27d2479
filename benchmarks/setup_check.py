"""What ``ConfigChecker`` takes for the weights of a model, in ratio to hashing their bytes (BLAKE2b, as it does).

python benchmarks/setup_check.py [--weights 1000] [--dtypes float32,bfloat16] [--rounds 5]

CPU time of the process; both take turns. ``bytes``: statistics and hashes of each weight; ``with the file``: the zip
file is written, too. The weights have the shapes of a transformer: of nine, seven are matrices and two are vectors.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import table
import torch

from msprobe.adapters.pytorch.setup_watch import make_watch
from msprobe.setup_check.document import SetupDocument, StepTensors
from msprobe.setup_check.pack import write_pack


def weights(count: int, dtype: torch.dtype, width: int) -> list[torch.Tensor]:
    """Weights of layers as Llama has them."""
    shapes = [(width, width)] * 4 + [(2 * width, width)] * 3 + [(width,)] * 2
    return [torch.randn(shapes[number % len(shapes)]).to(dtype) for number in range(count)]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def row(name: str, count: int, width: int, rounds: int, folder: Path) -> list[str]:
    """A row of the table: megabytes, seconds of hashing, both ratios."""
    tensors, watch = weights(count, getattr(torch, name), width), make_watch()

    def hashed() -> None:
        for tensor in tensors:
            hashlib.blake2b(tensor.view(torch.uint8).numpy().data, digest_size=16).hexdigest()

    def described() -> StepTensors:
        return StepTensors(step=0, rank=0, tensors={str(at): watch.describe(one) for at, one in enumerate(tensors)})

    def written() -> None:
        write_pack(folder / "a.zip", SetupDocument(weights=[described()]))

    turns = [(seconds(hashed), seconds(described), seconds(written)) for _ in range(rounds)]
    ratios = [statistics.median(turn[at] / turn[0] for turn in turns) for at in (1, 2)]
    size = sum(tensor.nbytes for tensor in tensors) / 1e6
    hashing = statistics.median(turn[0] for turn in turns)
    return [name, str(count), f"{size:.0f}", table.figure(hashing, 3), *map(table.figure, ratios)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=int, default=1000)
    parser.add_argument("--width", type=int, default=256, help="of a layer")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row(name, options.weights, options.width, options.rounds, Path(folder))
            for name in options.dtypes.split(",")
        ]
    print(table.markdown(("dtype", "weights", "MB", "hashing, s", "bytes", "with the file"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
