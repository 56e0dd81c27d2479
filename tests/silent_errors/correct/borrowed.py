"""Correct programs of other tests: families of real models with harmless changes, parallel modes and layouts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from tests.layouts.layouts import LAYOUTS
from tests.layouts.runs import PROGRAM
from tests.parallel_modes.job import run_program, write_program
from tests.parallel_modes.modes import MODES, PROGRAMS
from tests.silent_errors.frame import job, options


def benign(name: str, out: Path) -> None:
    """A real model with a change that means the same, such as ``llama/foreach``."""
    from tests.real_models.benign import BENIGN
    from tests.real_models.record import DUMP, record
    from tests.real_models.runs import written

    (case,) = (case for case in BENIGN if case.name == f"benign/{name}")
    folder = written(case.target, out.with_name("program"))
    losses = record(folder)
    (folder / "losses.json").write_text(json.dumps(losses), encoding="utf-8")
    shutil.copytree(folder / DUMP, out)


def mode(name: str, out: Path) -> None:
    """One way to spread a model over processes."""
    one = MODES[name]
    with job() as (rank, size):
        folder = out.with_name(f"program{rank}")
        write_program(folder, [PROGRAMS / f"{part}.py" for part in ("layers", one.program)], None, rank)
        torch.manual_seed(rank)
        run_program(folder / f"{one.program}.py", (one.kind, rank, size), out, "mix", "statistics")


def layout(name: str, out: Path) -> None:
    """One model in a parallel layout."""
    with job() as (rank, _):
        folder = out.with_name(f"program{rank}")
        write_program(folder, PROGRAM, None, rank)
        torch.manual_seed(rank)
        run_program(folder / "train.py", (LAYOUTS[name], rank), out, "mix", "statistics")


if __name__ == "__main__":
    given = options()
    kind, _, what = given.name.partition("-")
    {"benign": benign, "mode": mode, "layout": layout}[kind](what, Path(given.out))
