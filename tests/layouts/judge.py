"""What a comparison says about a case, and whether it is right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from msprobe.report.summary_text import summary_text
from tests.layouts.cases import Case
from tests.layouts.layouts import Layout
from tests.layouts.runs import DUMP

AXES = ("tp", "pp", "cp", "ep", "dp", "vpp")
"""The axes that ``--target-parallel`` takes."""
_SOURCE = re.compile(r"^(?P<path>.*?):(?P<line>\d+) in ")


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


def judge(case: Case, cache: Path) -> Answer:
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
    path = (first.module or "").rpartition(".")[0] if "." in (first.module or "") else first.module or ""
    module = any(part in path for part in case.fault.module.split("|")) if case.fault.module else False
    line = bool(_place(first.source) & case.right_lines())
    return Answer(case.name, False, summary.verdict, module, line, _said(summary), text)


def sizes(layout: Layout) -> str:
    """Return the layout in the words of ``--target-parallel``; "" where it needs none."""
    given = [(axis, getattr(layout, axis)) for axis in AXES]
    return ",".join(f"{axis}={size}" for axis, size in given) if any(size > 1 for _, size in given) else ""


def _place(source: str) -> set[tuple[str, int]]:
    """Return file and line of a frame, as a set: empty where it names none."""
    found = _SOURCE.search(source)
    return {(Path(found["path"]).name, int(found["line"]))} if found else set()


def _said(summary: CompareSummary) -> str:
    first = summary.first_divergence
    if first is None:
        return summary.reason
    place = " ".join(f"{file}:{line}" for file, line in _place(first.source)) or "no line"
    entry = first.target or f"golden {first.golden}"
    where = f"step {first.step} rank {first.rank} {entry} {first.slot}"
    return f"{first.module} | {place} | {where} {first.kind}: {first.reason}"
