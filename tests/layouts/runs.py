"""The model in a layout, with or without a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.layout_bed import runs
from tests.layout_bed.runs import LayoutRun
from tests.parallel_modes.modes import read_faults

HERE = Path(__file__).resolve().parent
PROGRAM = sorted((HERE / "programs").glob("*.py"))
FAULTS = read_faults(HERE / "faults.txt", ranks="")
GAPS = HERE / "known_gaps.json"


class Run(LayoutRun):
    """A training of the model in a layout."""

    @property
    def content(self) -> str:
        fault = FAULTS.get(f"{self.layout.name}-{self.variant}")
        edit = (fault.old, fault.new, fault.ranks) if fault else ()
        texts = [path.read_text(encoding="utf-8") for path in PROGRAM]
        return json.dumps([texts, repr(self.layout), edit])


def record_missing(wanted: Iterable[LayoutRun], cache: Path) -> int:
    """Record those of the runs that ``cache`` has not; returns their number."""
    return runs.record_missing(wanted, cache, "tests.layouts.job", MSPROBE_LOG_LEVEL="4")
