"""One process of a fed layout: ``python -m tests.layouts.fed_job RANK STORE LAYOUT TASK FOLDER=EDITS...``.

Each folder gets one recording. EDITS are names of faults of the layout, with ``+`` between them, or nothing; modules
are fed where the folder ``inputs`` lies beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.layout_bed.runs import DUMP
from tests.layouts.layouts import LAYOUTS, Layout
from tests.layouts.runs import FAULTS, PROGRAM
from tests.leftovers import leave_something_everywhere
from tests.parallel_modes.job import run_program


def record(layout: Layout, edits: str, folder: Path, rank: int, task: str) -> None:
    """Record one run."""
    program = folder / f"program{rank}"
    program.mkdir(parents=True)
    for path in PROGRAM:
        text = path.read_text(encoding="utf-8")
        for name in filter(None, edits.split("+")):
            text = FAULTS[f"{layout.name}-{name}"].edited(text)
        (program / path.name).write_text(text, encoding="utf-8")
    torch.manual_seed(rank)
    inputs = folder.parent / "inputs"
    further = {"load": {"path": str(inputs), "dump_after_load": True}} if inputs.is_dir() else {}
    run_program(program / "train.py", (layout, rank), folder / DUMP, "mix", task, **further)


def main(rank: int, store: str, name: str, task: str, *runs: str) -> None:
    torch.set_num_threads(1)
    leave_something_everywhere()
    layout = LAYOUTS[name]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=layout.size)
    for each in runs:
        folder, _, edits = each.partition("=")
        record(layout, edits, Path(folder), rank, task)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
