"""What a comparison says about a case, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from msprobe.report.summary_text import summary_text
from tests.layout_bed.cases import LayoutCase, place_of
from tests.layout_bed.runs import DUMP

AXES = ("tp", "pp", "cp", "ep", "dp", "vpp")
"""The axes of ``--target-parallel`` that layouts of tests have."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one case.

    ``module`` and ``line`` say whether these are right, of a case without a fault whether the runs are the same;
    ``text`` is what the terminal shows.
    """

    name: str
    harmless: bool
    verdict: str
    module: bool
    line: bool
    said: str
    text: str = ""

    @property
    def right(self) -> bool:
        """Return whether the verdict is right and, of a fault, its module or its line."""
        return self.verdict == ("same" if self.harmless else "diverged") and (self.module or self.line)


def judge(case: LayoutCase, cache: Path) -> Answer:
    """Compare the recordings of a case below ``cache``."""
    target, golden = (run.folder(cache) / DUMP for run in (case.target, case.golden))
    options = {"target_parallel": sizes(case.target.layout), "golden_parallel": sizes(case.golden.layout)}
    given = {name: text for name, text in options.items() if text and case.merged}
    try:
        summary = msprobe.compare(target, golden, executor="serial", **given).summary
    except Exception as error:  # noqa: BLE001  (an answer like any other)
        return Answer(case.name, case.harmless, "EXCEPTION", False, False, f"{type(error).__name__}: {error}"[:400])
    text = summary_text(summary)
    first = summary.first_divergence
    if first is None or case.fault is None:
        right = case.harmless and summary.verdict == "same"
        return Answer(case.name, case.harmless, summary.verdict, right, right, _said(summary), text)
    place = place_of(first.source)
    line = place is not None and case.is_place(place)
    return Answer(case.name, False, summary.verdict, case.is_module(first.module), line, _said(summary), text)


def sizes(layout: Any) -> str:
    """Return the layout in the words of ``--target-parallel``; "" where it needs none."""
    given = [(axis, getattr(layout, axis)) for axis in AXES]
    return ",".join(f"{axis}={size}" for axis, size in given) if any(size > 1 for _, size in given) else ""


def _said(summary: CompareSummary) -> str:
    first = summary.first_divergence
    if first is None:
        return summary.reason
    entry = first.target or f"golden {first.golden}"
    where = f"step {first.step} rank {first.rank} {entry} {first.slot}"
    return f"{first.module} | {place_of(first.source) or 'no line'} | {where} {first.kind}: {first.reason}"
