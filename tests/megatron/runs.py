"""Runs: a layout with or without a fault, where its recording lies, and how it is made."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.megatron.edits import Fault
from tests.megatron.layouts import LAYOUTS, Layout
from tests.megatron.package import environment
from tests.ranks import run_ranks

HERE = Path(__file__).resolve().parent
DUMP = "dump"
_PROGRAM = ("program.py", "weights.py", "layouts.py", "on_cpu.py")


def read_faults(path: Path) -> dict[str, Fault]:
    """Return the faults of a table by their ids: a line of names and facts, one with the function, two of the edit."""
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        head, function, old, new = lines
        modes, name, *facts = head.split()
        given: dict[str, Any] = {"ranks": "", **dict(fact.split("=") for fact in facts)}
        given["ranks"] = tuple(int(rank) for rank in given["ranks"].split(",") if rank)
        found += [Fault(mode, name, function, old[2:], new[2:], **given) for mode in modes.split(",")]
    return {fault.id: fault for fault in found}


FAULTS = read_faults(HERE / "faults.txt")


@dataclass(frozen=True)
class Run:
    """A training in a layout. ``variant`` is ``healthy``, ``again`` or the name of a fault of the layout."""

    layout: Layout
    variant: str = "healthy"

    @property
    def fault(self) -> Fault | None:
        """Return the fault that the run has."""
        return FAULTS.get(f"{self.layout.name}-{self.variant}")

    def folder(self, cache: Path) -> Path:
        """Return the folder of the recording below ``cache``: its name follows from the program and the layout."""
        texts = [(HERE / name).read_text(encoding="utf-8") for name in _PROGRAM]
        content = repr((texts, self.layout, self.fault))
        return cache / f"{self.layout.name}-{self.variant}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def is_recorded(self, cache: Path) -> bool:
        """Return whether every rank has come to its end."""
        return all(result_of(self.folder(cache), rank).exists() for rank in range(self.layout.size))

    def results(self, cache: Path) -> list[dict[str, Any]]:
        """Return what each rank has at the end of the training."""
        import torch

        paths = [result_of(self.folder(cache), rank) for rank in range(self.layout.size)]
        return [torch.load(path, weights_only=True) for path in paths]


def result_of(folder: Path, rank: int) -> Path:
    """Return the file with the result of a rank."""
    return folder / f"result{rank}.pt"


def record_missing(runs: Iterable[Run], cache: Path) -> int:
    """Record those of ``runs`` that ``cache`` has not, a layout at a time; returns their number."""
    missing = [run for run in dict.fromkeys(runs) if not run.is_recorded(cache)]
    for name, layout in LAYOUTS.items():
        own = [run for run in missing if run.layout == layout]
        for run in own:
            shutil.rmtree(run.folder(cache), ignore_errors=True)
        if own:
            _record(name, layout.size, [f"{run.variant}={run.folder(cache)}" for run in own])
    return len(missing)


def _record(name: str, size: int, variants: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        run_ranks("tests.megatron.job", size, lambda rank: [rank, store, name, *variants], **environment())
