"""One process of a mode: ``python -m tests.parallel_modes.job RANK FOLDER MODE VARIANT...``.

Each variant is recorded into ``FOLDER/VARIANT``: ``healthy`` and ``again`` run the program as it is, the others are
names of faults. Memory that nobody has written holds something else each time.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from msprobe.pytorch import PrecisionDebugger
from tests.leftovers import leave_something_everywhere
from tests.parallel_modes.modes import FAULTS, MODES, PROGRAMS, Mode


def written(folder: Path, mode: Mode, variant: str, rank: int) -> Path:
    """Write the program that a rank runs; return its path."""
    fault = FAULTS.get(f"{mode.name}-{variant}")
    texts = {name: (PROGRAMS / f"{name}.py").read_text() for name in ("layers", mode.program)}
    if fault is not None and (not fault.ranks or rank in fault.ranks):
        edited = {name: fault.edited(text) for name, text in texts.items()}
        assert edited != texts, fault.id
        texts = edited
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder / f"{mode.program}.py"


def record(folder: Path, mode: Mode, variant: str, rank: int, level: str, task: str) -> None:
    program = written(folder / variant / f"program{rank}", mode, variant, rank)
    sys.modules.pop("layers", None)
    sys.path.insert(0, str(program.parent))
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(folder / variant / "dump"), "level": level, "task": task})
    torch.manual_seed(rank)
    try:
        runpy.run_path(str(program))["train"](mode.kind, rank, mode.size, debugger)
    finally:
        sys.path.remove(str(program.parent))


def main(rank: int, folder: Path, name: str, *variants: str) -> None:
    torch.set_num_threads(1)
    leave_something_everywhere()
    mode = MODES[name]
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=mode.size)
    for variant in variants:
        record(folder, mode, variant, rank, "mix", "statistics")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
