"""One process of a layout: ``python -m tests.megatron.job RANK STORE LAYOUT VARIANT=FOLDER...``.

Each variant is recorded into its folder: ``healthy`` and ``again`` run megatron-core as it is, the others are names of
faults. ``result{rank}.pt`` there has the losses and the parameters after training. Memory that nobody has written holds
something else each time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from msprobe.pytorch import PrecisionDebugger
from tests.leftovers import leave_something_everywhere
from tests.megatron.edits import edited
from tests.megatron.layouts import LAYOUTS, Layout
from tests.megatron.on_cpu import import_megatron
from tests.megatron.runs import DUMP, FAULTS, result_of


def record(layout: Layout, variant: str, folder: Path, rank: int) -> None:
    from tests.megatron.program import train

    PrecisionDebugger._instance = None
    folder.mkdir(parents=True, exist_ok=True)
    debugger: Any = PrecisionDebugger({"dump_path": str(folder / DUMP), "level": "mix", "task": "statistics"})
    with edited(FAULTS.get(f"{layout.name}-{variant}"), rank):
        result = train(layout, debugger)
    torch.save(result, result_of(folder, rank))


def main(rank: int, store: str, name: str, *variants: str) -> None:
    torch.set_num_threads(1)
    leave_something_everywhere()
    import_megatron()
    from tests.megatron.program import initialize

    layout = LAYOUTS[name]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=layout.size)
    initialize(layout)
    for each in variants:
        variant, _, folder = each.partition("=")
        record(layout, variant, Path(folder), rank)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
