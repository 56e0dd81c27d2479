"""One process of a layout: ``python -m tests.layouts.job RANK STORE LAYOUT VARIANT=FOLDER...``.

``healthy`` and ``again`` run the program as it is, the other variants are names of faults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.layout_bed.runs import DUMP, record_variants
from tests.layouts.layouts import LAYOUTS, Layout
from tests.layouts.runs import FAULTS, PROGRAM
from tests.parallel_modes.job import run_program, write_program


def record(layout: Layout, variant: str, folder: Path, rank: int) -> Any:
    program = folder / f"program{rank}"
    write_program(program, PROGRAM, FAULTS.get(f"{layout.name}-{variant}"), rank)
    torch.manual_seed(rank)
    return run_program(program / "train.py", (layout, rank), folder / DUMP, "mix", "statistics")


if __name__ == "__main__":
    record_variants(LAYOUTS, record)
