"""megatron-core in a layout, with or without a fault."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.layout_bed import runs
from tests.layout_bed.runs import LayoutRun
from tests.megatron.edits import Fault
from tests.megatron.package import environment

HERE = Path(__file__).resolve().parent
GAPS = HERE / "known_gaps.json"
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


class Run(LayoutRun):
    """A training of megatron-core in a layout."""

    @property
    def content(self) -> str:
        texts = [(HERE / name).read_text(encoding="utf-8") for name in _PROGRAM]
        return repr((texts, self.layout, FAULTS.get(f"{self.layout.name}-{self.variant}")))


def record_missing(wanted: Iterable[LayoutRun], cache: Path) -> int:
    """Record those of the runs that ``cache`` has not; returns their number."""
    return runs.record_missing(wanted, cache, "tests.megatron.job", **environment())
