"""What a comparison says about a case, and whether it is right: a fault is named by its module or its function."""

from __future__ import annotations

import re
from pathlib import Path

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from msprobe.report.summary_text import summary_text
from tests.layouts.judge import Answer, sizes
from tests.megatron.cases import Case
from tests.megatron.runs import DUMP

_SOURCE = re.compile(r"^(?P<path>.*?):(?P<line>\d+) in (?P<function>[\w.<>]+)")


def judge(case: Case, cache: Path) -> Answer:
    """Compare the recordings of a case below ``cache``."""
    target, golden = (run.folder(cache) / DUMP for run in (case.target, case.golden))
    options = {"target_parallel": sizes(case.target.layout), "golden_parallel": sizes(case.golden.layout)}
    given = {name: text for name, text in options.items() if text and case.merged}
    try:
        summary = msprobe.compare(target, golden, executor="serial", **given).summary
    except Exception as error:  # noqa: BLE001  (an answer like any other)
        return Answer(case.name, case.harmless, "EXCEPTION", False, False, f"{type(error).__name__}: {error}"[:400])
    text, first = summary_text(summary), summary.first_divergence
    if first is None or case.fault is None:
        right = case.harmless and summary.verdict == "same"
        return Answer(case.name, case.harmless, summary.verdict, right, right, _said(summary), text)
    path = (first.module or "").rpartition(".")[0] if "." in (first.module or "") else first.module or ""
    module = any(part in path for part in case.fault.module.split("|")) if case.fault.module else False
    found = _SOURCE.search(first.source)
    place = bool(found) and case.fault.is_place(found["path"], int(found["line"]), found["function"].rpartition(".")[2])
    return Answer(case.name, False, summary.verdict, module, place, _said(summary), text)


def _said(summary: CompareSummary) -> str:
    first = summary.first_divergence
    if first is None:
        return summary.reason
    found = _SOURCE.search(first.source)
    place = f"{Path(found['path']).name}:{found['line']} {found['function']}" if found else first.source or "no line"
    entry = first.target or f"golden {first.golden}"
    where = f"step {first.step} rank {first.rank} {entry} {first.slot}"
    return f"{first.module} | {place} | {where} {first.kind}: {first.reason}"
