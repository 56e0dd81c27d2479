"""What it costs to compare two large checkpoints: ratio to reading both files once, and memory beside the tensors.

The two checkpoints hold the same names; the elements of the second differ slightly, so that no shortcut of equal bytes
applies (``--equal`` measures that one). Both are in the page cache. Reading is one thread that reads every byte of
both into one buffer. Reading and comparing take turns, each in a process of its own, and the ratio is that of the best
of each. The CPU ratio is that of the seconds of all threads: beside other work it is the figure to trust, divided by
the processors that are free. The memory is the peak of the process beyond what it had before the comparison began, in
units of the largest tensor.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from meter import MEGABYTE, folder_size, peak_resident_mb

LAYERS = 16
BUFFER = 1 << 20
FORMATS = ("safetensors", "sharded", "torch", "dcp", "mindspore", "megatron")


def main() -> int:
    """Print a table with one line for each format and dtype."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of each checkpoint")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32", "float16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the files are written for a while")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return _work(*options.worker)
    print(
        f"| format | dtype | GB each | read s | compare s | ratio | CPU ratio | peak / largest tensor |\n|{'---|' * 8}",
        flush=True,
    )
    for name in options.formats.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            sides = [Path(folder) / str(side) for side in (0, 1)]
            for number, side in enumerate(sides):
                side.mkdir()
                write(side, name, options.dtype, options.gigabytes, 0 if options.equal else number)
            print(_row(name, options, sides), flush=True)
    return 0


def _row(name: str, options: argparse.Namespace, sides: list[Path]) -> str:
    results: dict[str, list[dict[str, Any]]] = {"read": [], "compare": []}
    for turn in range(options.rounds + 1):
        for kind, found in results.items():
            command = [sys.executable, __file__, "--worker", kind, *map(str, sides)]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if turn:  # the first one fills the page cache
                found.append(result)
    read, compare = (min(one["seconds"] for one in found) for found in results.values())
    own, other = (min(one["cpu"] for one in found) for found in results.values())
    memory = max(one["memory"] for one in results["compare"])
    size = folder_size(sides[0]) / 1e9
    times = f"{read:.2f} | {compare:.2f} | {compare / read:.2f} | {other / own:.2f}"
    return f"| {name} | {options.dtype} | {size:.2f} | {times} | {memory:.2f} |"


def _work(kind: str, first: str, second: str) -> int:
    """Read both, or compare them; print seconds, and the peak of memory in units of the largest tensor."""
    from msprobe.checkpoints.job import compare_checkpoints

    if kind == "read":
        start, spent = time.perf_counter(), time.process_time()
        for side in (first, second):
            for path in sorted(Path(side).rglob("*")):
                _read(path)
        print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - spent}))
        return 0
    import msprobe.adapters.pytorch.checkpoints.distributed_checkpoint  # noqa: F401  (torch is no part of the figures)

    before = peak_resident_mb()
    start, spent = time.perf_counter(), time.process_time()
    found = compare_checkpoints(Path(first), Path(second))
    seconds, cpu = time.perf_counter() - start, time.process_time() - spent
    largest = max(one.first.numel * _width(one.first.dtype) for one in found.parameters if one.first) / MEGABYTE
    assert not any(one.kind in {"problem", "shape", "first_only", "second_only"} for one in found.parameters)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": (peak_resident_mb() - before) / largest}))
    return 0


def _width(dtype: str) -> int:
    return 4 if dtype == "float32" else 2


def _read(path: Path) -> None:
    if path.is_file():
        room = bytearray(BUFFER)
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass


def weights(dtype: str, gigabytes: float, seed: int) -> dict[str, Any]:
    """Return an embedding of an eighth of all bytes, and layers of two matrices and a norm.

    The elements of another ``seed`` differ by about one part in a thousand.
    """
    import torch

    kind = getattr(torch, dtype)
    count = int(gigabytes * 1e9 / kind.itemsize)
    generator = torch.Generator().manual_seed(0)
    pattern = torch.randn(1 << 20, generator=generator) * (1 + seed * 1e-3)
    pattern += seed * 1e-3 * torch.randn(1 << 20, generator=generator)

    def tensor(rows: int, columns: int) -> Any:
        whole = pattern.to(kind).repeat(-(-rows * columns // pattern.numel()))
        return whole[: rows * columns].reshape(rows, columns).clone()

    found = {"embed.weight": tensor(count // 8 // 4096, 4096)}
    rows = count * 7 // 8 // LAYERS // 2 // 4096
    for layer in range(LAYERS):
        found[f"layers.{layer}.up.weight"] = tensor(rows, 4096)
        found[f"layers.{layer}.down.weight"] = tensor(rows, 4096)
        found[f"layers.{layer}.norm.weight"] = tensor(1, 4096)[0].clone()
    return found


def write(folder: Path, name: str, dtype: str, gigabytes: float, seed: int) -> None:
    """Write a checkpoint of one format."""
    import torch

    state = weights(dtype, gigabytes, seed)
    if name == "safetensors":
        from safetensors.torch import save_file

        save_file(state, folder / "model.safetensors")
    elif name == "sharded":
        from safetensors.torch import save_file

        names = list(state)
        files = {
            one: f"model-{number * 4 // len(names) + 1:05d}-of-00004.safetensors" for number, one in enumerate(names)
        }
        for file in sorted(set(files.values())):
            save_file({one: state[one] for one in names if files[one] == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    elif name == "torch":
        torch.save(state, folder / "model.pt")
    elif name == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.save(state, checkpoint_id=folder, no_dist=True)
    elif name == "mindspore":
        _write_mindspore(folder, state)
    else:
        _write_megatron(folder, state)


def _write_mindspore(folder: Path, state: dict[str, Any]) -> None:
    import mindspore
    import torch

    listed = []
    for one, value in state.items():
        bits = value.view(torch.int16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
        tensor = mindspore.Tensor(bits)
        if value.dtype == torch.bfloat16:
            tensor = tensor.view(mindspore.bfloat16)
        listed.append({"name": one, "data": tensor})
    mindspore.save_checkpoint(listed, str(folder / "model.ckpt"))


def _write_megatron(folder: Path, state: dict[str, Any]) -> None:
    """Write two tensor-parallel ranks: one matrix is cut along its rows, the other along its columns."""
    import torch

    (folder / "latest_checkpointed_iteration.txt").write_text("1")
    arguments = argparse.Namespace(tensor_model_parallel_size=2, pipeline_model_parallel_size=1)
    for rank in range(2):
        model = {}
        for one, value in state.items():
            named = one.replace("layers.", "decoder.layers.").replace("up.", "mlp.linear_fc1.")
            named = named.replace("down.", "mlp.linear_fc2.").replace("embed.", "embedding.word_embeddings.")
            axis = 1 if "fc2" in named else 0
            part = value if "norm" in named else value.chunk(2, axis)[rank].clone()
            model[named.replace("norm.", "input_layernorm.")] = part
        path = folder / "iter_0000001" / f"mp_rank_0{rank}" / "model_optim_rng.pt"
        path.parent.mkdir(parents=True)
        torch.save({"model": model, "args": arguments, "iteration": 1}, path)


if __name__ == "__main__":
    sys.exit(main())
