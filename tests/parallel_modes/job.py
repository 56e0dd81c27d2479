"""One process of a mode: ``python -m tests.parallel_modes.job RANK FOLDER MODE VARIANT...``.

Each variant is recorded into ``FOLDER/VARIANT``: ``healthy`` and ``again`` run the program as it is, the others are
names of faults. Memory that nobody has written holds something else each time.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from msprobe.pytorch import PrecisionDebugger
from tests.leftovers import leave_something_everywhere
from tests.parallel_modes.modes import FAULTS, MODES, PROGRAMS, Fault, Mode


def write_program(folder: Path, program: Iterable[Path], fault: Fault | None, rank: int) -> None:
    """Write the files of the program that a rank runs, with the fault where it has one."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in program}
    if fault is not None and (not fault.ranks or rank in fault.ranks):
        edited = {name: fault.edited(text) for name, text in texts.items()}
        assert edited != texts, fault.id
        texts = edited
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def run_program(main: Path, arguments: Sequence[object], dump: Path, level: str, task: str, **further: object) -> Any:
    """Return what ``train`` of a program returns; it is given ``arguments`` and a debugger that writes to ``dump``.

    ``further`` are more keys of its configuration.
    """
    for path in main.parent.glob("*.py"):
        sys.modules.pop(path.stem, None)
    sys.path.insert(0, str(main.parent))
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(dump), "level": level, "task": task, **further})
    try:
        return runpy.run_path(str(main))["train"](*arguments, debugger)
    finally:
        sys.path.remove(str(main.parent))


def record(folder: Path, mode: Mode, variant: str, rank: int, level: str, task: str) -> None:
    program = folder / variant / f"program{rank}"
    files = [PROGRAMS / f"{name}.py" for name in ("layers", mode.program)]
    write_program(program, files, FAULTS.get(f"{mode.name}-{variant}"), rank)
    torch.manual_seed(rank)
    arguments = (mode.kind, rank, mode.size)
    run_program(program / f"{mode.program}.py", arguments, folder / variant / "dump", level, task)


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
