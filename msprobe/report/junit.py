"""Writes the result as JUnit XML, which CI systems show as test results: one suite per step and rank.

The first case of a suite is the verdict of the pair; it fails when the pair diverged, with the first divergence as the
message and the stack as the text, and is an error when the pair could not be compared, as a whole or in data that it
says it holds (``incomplete``). Each further case is one entry with a value beyond its tolerance. Cases fail only where
the verdict is ``diverged``, and a rank that is missing on one side is an error, so a green report and
``--fail-on diverged`` always agree; what else was not compared (``incomplete`` in the summary) is a skipped case each.
Each accepted difference is a case that passes; one that accepted nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from msprobe.compare.agreement import AS_FAR
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.report.junit_xml import add_case, add_result, document, xml_text
from msprobe.report.rank_outcome import PairOutcome

_CLASS = "msprobe.compare"


def write_junit(path: Path, summary: CompareSummary, outcomes: Sequence[PairOutcome]) -> None:
    """Write the report, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
    """
    make_folder(path.absolute().parent)
    write_atomic(path, [junit_document(summary, outcomes)])


def junit_document(summary: CompareSummary, outcomes: Sequence[PairOutcome]) -> bytes:
    """Return the report as XML in UTF-8."""
    root = ET.Element("testsuites", name="msprobe compare")
    for outcome in outcomes:
        root.append(_suite(outcome))
    if not any(outcome.checked or outcome.problem for outcome in outcomes) and summary.verdict == "not_comparable":
        suite = ET.SubElement(root, "testsuite", name="comparison")
        add_result(add_case(suite, _CLASS, "verdict"), "error", "not_comparable", summary.reason)
    if summary.incomplete:
        suite = ET.SubElement(root, "testsuite", name="not compared")
        for line in summary.incomplete:
            state = ("error", "incomplete") if line in summary.missing else ("skipped", "")
            add_result(add_case(suite, _CLASS, line), *state, line)
    if summary.accepted:
        suite = ET.SubElement(root, "testsuite", name="accepted differences")
        for use in summary.accepted:
            case = add_case(suite, _CLASS, use.entry.text)
            if use.state == "used":
                ET.SubElement(case, "system-out").text = xml_text(use.text)
            else:
                add_result(case, "skipped", use.state, use.text)
    return document(root)


def _suite(outcome: PairOutcome) -> ET.Element:
    """Return the suite of one pair of dumps."""
    suite = ET.Element("testsuite", name=xml_text(outcome.place))
    properties = ET.SubElement(suite, "properties")
    counts = outcome.counts
    values = {
        "target": outcome.target,
        "golden": outcome.golden,
        "verdict": outcome.verdict,
        "rows": f"{counts.passed} pass, {counts.warning} warning, {counts.error} error",
        "unmatched rows": f"{counts.target_only} only in the target, {counts.golden_only} only in the golden run",
        **({"agreement": AS_FAR} if outcome.order_blind and outcome.verdict == "same" else {}),
        **{f"table {number}": path for number, path in enumerate(outcome.results)},
    }
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=xml_text(value))
    _add_verdict(add_case(suite, _CLASS, "verdict"), outcome)
    if outcome.first_divergence is not None:
        for failure in outcome.failures:
            add_result(add_case(suite, _CLASS, failure.name), "failure", "error", failure.message)
        rest = outcome.failed - len(outcome.failures)
        if rest > 0:
            add_result(
                add_case(suite, _CLASS, "further entries"),
                "failure",
                "error",
                f"{rest} more entries; see the result table",
            )
    return suite


def _add_verdict(case: ET.Element, outcome: PairOutcome) -> None:
    first = outcome.first_divergence
    if first is not None:
        add_result(case, "failure", first.kind, f"first divergence: {first.name}: {first.reason}", _details(first))
    elif outcome.problem:
        add_result(case, "error", "not_comparable", outcome.problem)
    elif not outcome.checked:
        add_result(case, "error", "not_comparable", "no value could be checked on both sides")
    elif outcome.lost:
        add_result(case, "error", "incomplete", "; ".join(outcome.lost))


def _details(first: FirstDivergence) -> str:
    lines = [f"target: {first.target}", f"golden: {first.golden}", f"slot: {first.slot}", f"module: {first.module}"]
    lines += [f"ranks: {first.ranks_text}"] if first.ranks else []
    lines += [f"token: {first.token_text}"] if first.token_text else []
    own, *others = first.calls
    lines += [f"source{first.source_side}: {own.source}"] if own.source else []
    lines += [f"stack{first.source_side}:", *(f"  {' '.join(frame.split())}" for frame in own.stack)]
    for other in others:
        side = "golden" if other.run == "golden run" else other.run
        lines += [f"golden module: {first.golden_module}"] if side == "golden" else []
        lines += [f"{side} source: {other.source}", f"{side} stack:"]
        lines += [f"  {' '.join(frame.split())}" for frame in other.stack]
    return "\n".join(lines)
