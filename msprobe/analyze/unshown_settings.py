"""A setting of an optimizer that differs, in a step of which nothing else is recorded, as a first divergence."""

from __future__ import annotations

from msprobe.analyze.update_causes import setting_text
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import CallSource, PairSource
from msprobe.compare.records.entries import OPTIMIZER
from msprobe.compare.records.source_lines import source_line
from msprobe.compare.rows.summary import FirstDivergence, set_place

_WHY = "no recorded value shows what this step makes of it"


def unshown_setting(comparison: Comparison) -> FirstDivergence | None:
    """Return a description of ``Comparison.unshown_setting``; None where there is none."""
    found = comparison.unshown_setting
    if found is None:
        return None
    place = comparison.target.place
    description = FirstDivergence(
        step=place.step,
        rank=place.number if place.kind == "rank" else None,
        target=OPTIMIZER,
        golden=OPTIMIZER,
        slot=found.name,
        kind="argument",
        reason=f"{setting_text(*found)}; {_WHY}",
        module=OPTIMIZER,
        stack=[],
    )
    target, golden = (
        CallSource(step.stack, OPTIMIZER, source_line(step.stack)) for step in (found.target, found.golden)
    )
    set_place(description, PairSource(target, golden))
    return description
