"""The fixed cost of ``acc_check`` for each call: its time without that of the two executions.

python benchmarks/precheck.py [DUMP]      without a dump a small transformer is recorded, forward and backward
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from msprobe.adapters.pytorch.replay.runner import make_replayer
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.store.reader import only_dump
from msprobe.precheck.checked_call import check_case
from msprobe.precheck.settings import CheckSettings
from msprobe.pytorch import PrecisionDebugger
from msprobe.replay.cases import cases_of, prepare
from msprobe.replay.judged_call import in_dtype


def record(folder: Path) -> Path:
    """Record a step of a small transformer at L1."""
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model, batch = torch.nn.TransformerEncoder(layer, 4), torch.randn(4, 32, 128)
    with PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "tensor"}).collect():
        model(batch).square().mean().backward()
    return folder


def main() -> None:
    """Print milliseconds for each call."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        dump = only_dump(Path(sys.argv[1]) if len(sys.argv) > 1 else record(Path(temporary)))
        replayer, settings = make_replayer(), CheckSettings("cpu")
        whole, executions, count = 0.0, 0.0, 0
        for case in cases_of(dump):
            try:
                call = prepare(case)
                begin = time.perf_counter()
                replayer.run(call, "cpu")
                replayer.run(in_dtype(call, "float64"), "cpu")
            except CannotReplayError:
                continue
            middle = time.perf_counter()
            check_case(case, replayer, settings)
            end = time.perf_counter()
            whole, executions, count = whole + end - middle, executions + middle - begin, count + 1
    each = 1000.0 / max(count, 1)
    print(f"{count} calls: {whole * each:.2f} ms each, of which {executions * each:.2f} ms are the two executions")


if __name__ == "__main__":
    main()
