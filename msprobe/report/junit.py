"""Writes the result as JUnit XML, which CI systems show as test results: one suite per step and rank.

The first case of a suite is the verdict of the pair; it fails when the pair diverged, with the first divergence as the
message and the stack as the text, and is an error when the pair could not be compared, as a whole or in data that it
says it holds (``incomplete``). Each further case is one entry with a value beyond its tolerance. Cases fail only where
the verdict is ``diverged``, so a green report and ``--fail-on diverged`` always agree; what was not compared
(``incomplete`` in the summary) is a skipped case each. Each accepted difference is a case that passes; one that
accepted nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from msprobe.compare.agreement import AS_FAR
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.report.rank_outcome import PairOutcome

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
        _add_result(_case(suite, "verdict"), "error", "not_comparable", summary.reason)
    if summary.incomplete:
        suite = ET.SubElement(root, "testsuite", name="not compared")
        for line in summary.incomplete:
            _add_result(_case(suite, line), "skipped", "", line)
    if summary.accepted:
        suite = ET.SubElement(root, "testsuite", name="accepted differences")
        for use in summary.accepted:
            case = _case(suite, use.entry.text)
            if use.state == "used":
                ET.SubElement(case, "system-out").text = _xml(use.text)
            else:
                _add_result(case, "skipped", use.state, use.text)
    for suite in root:
        _set_counts(suite)
    _set_counts(root)
    ET.indent(root, " ")
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _suite(outcome: PairOutcome) -> ET.Element:
    """Return the suite of one pair of dumps."""
    suite = ET.Element("testsuite", name=_xml(outcome.place))
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
        ET.SubElement(properties, "property", name=name, value=_xml(value))
    _add_verdict(_case(suite, "verdict"), outcome)
    if outcome.first_divergence is not None:
        for failure in outcome.failures:
            _add_result(_case(suite, failure.name), "failure", "error", failure.message)
        rest = outcome.failed - len(outcome.failures)
        if rest > 0:
            _add_result(
                _case(suite, "further entries"), "failure", "error", f"{rest} more entries; see the result table"
            )
    return suite


def _add_verdict(case: ET.Element, outcome: PairOutcome) -> None:
    first = outcome.first_divergence
    if first is not None:
        _add_result(case, "failure", first.kind, f"first divergence: {first.name}: {first.reason}", _details(first))
    elif outcome.problem:
        _add_result(case, "error", "not_comparable", outcome.problem)
    elif not outcome.checked:
        _add_result(case, "error", "not_comparable", "no value could be checked on both sides")
    elif outcome.lost:
        _add_result(case, "error", "incomplete", "; ".join(outcome.lost))


def _details(first: FirstDivergence) -> str:
    lines = [f"target: {first.target}", f"golden: {first.golden}", f"slot: {first.slot}", f"module: {first.module}"]
    lines += [f"ranks: {first.ranks_text}"] if first.ranks else []
    lines += [f"token: {first.token_text}"] if first.token_text else []
    own, *others = first.calls
    lines += [f"source{first.source_side}: {own.source}"] if own.source else []
    lines += [f"stack{first.source_side}:", *(f"  {' '.join(frame.split())}" for frame in own.stack)]
    for other in others:
        lines += [f"golden module: {first.golden_module}", f"golden source: {other.source}", "golden stack:"]
        lines += [f"  {' '.join(frame.split())}" for frame in other.stack]
    return "\n".join(lines)


def _case(suite: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_CLASS, name=_xml(name))


def _add_result(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    """Add a result to a case: ``tag`` is failure, error or skipped; a case without a result has passed."""
    element = ET.SubElement(case, tag, message=_xml(message))
    if kind:
        element.set("type", kind)
    if text:
        element.text = _xml(text)


def _set_counts(suite: ET.Element) -> None:
    suite.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    for tag, title in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(title, str(sum(1 for _ in suite.iter(tag))))


def _xml(text: str) -> str:
    """Return a text with a replacement character for each one that XML cannot hold, even escaped."""
    return _NOT_XML.sub("\ufffd", text)
