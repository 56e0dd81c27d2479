"""One process of a layout: ``python -m tests.layouts.job RANK STORE LAYOUT VARIANT=FOLDER...``.

Each variant is recorded into its folder: ``healthy`` and ``again`` run the program as it is, the others are names of
faults. ``result{rank}.pt`` there has the losses and the parameters after training. Memory that nobody has written holds
something else each time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.layouts.layouts import LAYOUTS, Layout
from tests.layouts.runs import DUMP, FAULTS, PROGRAM, result_of
from tests.leftovers import leave_something_everywhere
from tests.parallel_modes.job import run_program, write_program


def record(layout: Layout, variant: str, folder: Path, rank: int) -> None:
    program = folder / f"program{rank}"
    write_program(program, PROGRAM, FAULTS.get(f"{layout.name}-{variant}"), rank)
    torch.manual_seed(rank)
    result = run_program(program / "train.py", (layout, rank), folder / DUMP, "mix", "statistics")
    torch.save(result, result_of(folder, rank))


def main(rank: int, store: str, name: str, *variants: str) -> None:
    torch.set_num_threads(1)
    leave_something_everywhere()
    layout = LAYOUTS[name]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=layout.size)
    for each in variants:
        variant, _, folder = each.partition("=")
        record(layout, variant, Path(folder), rank)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
