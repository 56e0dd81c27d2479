"""The summary of a comparison: ``summary_text`` for a terminal, ``summary_json`` and ``write_summary`` for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from msprobe.compare.agreement import AS_FAR, WHY
from msprobe.compare.records.source_lines import excerpt
from msprobe.compare.rows.summary import CHANGED_LINE, CompareSummary, FirstDivergence
from msprobe.core.errors import MsprobeException
from msprobe.core.store.safe_files import make_folder, write_atomic

_LISTED, _MODULES_LISTED, _LINES_LISTED = 8, 40, 12
_NOTES, _SHORT = 2, 80
_TITLES = {"golden run": "golden source", "target": "target source", CHANGED_LINE: CHANGED_LINE}
_WORDS = {"same": "SAME", "incomplete": "INCOMPLETE", "diverged": "DIVERGED", "not_comparable": "NOT COMPARABLE"}


def summary_text(summary: CompareSummary) -> str:
    """Return verdict, counts, the first divergence with its module and source line, and the paths of the tables."""
    blind = [f"{AS_FAR}: {WHY}"] if summary.verdict == "same" and summary.order_blind else []
    notes = list(filter(None, [accepted_text(summary), *blind, *summary.notes]))
    shown = [_in_short(note) for note in notes[:_NOTES]]
    if summary.verdict == "not_comparable":
        shown = notes = [summary.reason]
    lines = [f"Verdict: {_WORDS[summary.verdict]}{_in_brackets(shown, len(notes))}"]
    has_rows = summary.first_divergence is None or any(asdict(summary.counts).values())  # task structure has none
    if has_rows and (summary.verdict != "not_comparable" or summary.counts.pairs):
        lines.append(_counts_line(summary))
    if summary.first_divergence is not None:
        lines.extend(_divergence_lines(summary.first_divergence))
    if summary.operators:
        from msprobe.report.operator_table import group_lines  # loaded where rows are grouped

        lines.extend(_listed("By operator", list(group_lines(summary.operators))))
    lines.extend(_listed("Remark", [note for note in notes if note not in shown]))
    lines.extend(_listed("Set-up", summary.setup))
    lines.extend(_listed("Wrong by itself", [_module_line(one) for one in summary.wrong_modules], _MODULES_LISTED))
    lines.extend(_listed("Accepted", [use.text for use in summary.accepted if use.state == "used"]))
    lines.extend(_listed("Not accepted", [use.text for use in summary.accepted if use.state != "used"]))
    lines.extend(_listed("Not compared", summary.unpaired))
    lines.extend(_listed("Table", summary.results))
    return "\n".join(lines)


def _in_short(note: str) -> str:
    """Return what a note says first; a short one is left as it is."""
    return note if len(note) <= _SHORT else re.split(r" \(|: |; ", note, maxsplit=1)[0]


def _in_brackets(shown: Sequence[str], count: int) -> str:
    """Return the notes that the line of the verdict shows, of a number of them."""
    rest = count - len(shown)
    more = [f"{rest} more remark{'s' if rest > 1 else ''}"] if rest > 0 else []
    return f" ({'; '.join([*shown, *more])})" if any(shown) else ""


def _module_line(wrong: FirstDivergence) -> str:
    """Return a wrong module of a fed run on one line."""
    step = "" if wrong.step is None else f"step {wrong.step}, "
    source = f" ({wrong.source.partition(' in ')[0]})" if wrong.source else ""
    return f"{step}{wrong.name}: {wrong.reason}{source}"


def accepted_text(summary: CompareSummary) -> str:
    """Return how many differences were accepted, for the verdict line; empty where none was."""
    count = sum(use.count for use in summary.accepted)
    return f"with {count} accepted difference{'' if count == 1 else 's'}" if count else ""


def _counts_line(summary: CompareSummary) -> str:
    """Return the numbers of rows; where the runs diverged, how many follow from the cause instead of their levels."""
    counts = summary.counts
    text = f"Rows: {counts.pairs} pairs: {counts.passed} pass"
    if summary.first_divergence is None:
        text += f", {counts.warning} warning, {counts.error} error"
    else:
        shows = summary.first_divergence.slot is not None  # one of these rows is the cause itself
        text += f"; 1 cause; {max(0, counts.warning + counts.error - shows)} rows follow from it"
    return f"{text}; {counts.target_only} only in the target, {counts.golden_only} only in the golden run"


def _listed(title: str, items: list[str], most: int = _LISTED) -> list[str]:
    """Return a line per item; of many items the first ones, and a line that says how many more there are."""
    lines = [f"{title}: {item}" for item in items[:most]]
    rest = len(items) - most
    return [*lines, f"{title}: ... and {rest} more"] if rest > 0 else lines


def _divergence_lines(first: FirstDivergence) -> list[str]:
    where = "" if first.step is None else f" in step {first.step}"
    if first.ranks:
        where += f", rank{'s' if len(first.ranks) > 1 else ''} {', '.join(map(str, first.ranks))}"
    elif first.rank is not None:
        where += f", rank {first.rank}"
    lines = [f"First divergence{where}: {first.name}", *source_lines(first)]
    if first.stretch:
        lines.append(f"  lines:  {lines_text(first.stretch)}")
    if first.module:
        other = first.golden_module if first.target is not None else None
        lines.append(f"  module: {first.module}" + (f" (golden: {other})" if other not in (None, first.module) else ""))
    if first.ranks:
        lines.append(f"  ranks:  {first.ranks_text}")
    if first.token_text:
        lines.append(f"  token:  {first.token_text}")
    lines += [f"  kind:   {first.kind_words}", f"  reason: {first.reason}"]
    if first.worst_index is not None:
        values = f"{first.worst_target} in the target, {first.worst_golden} in the golden run"
        lines.append(f"  worst:  element {first.worst_index}: {values}; the first to differ is {first.first_index}")
    return lines


def lines_text(sources: Sequence[str]) -> str:
    """Return source lines in short: ``PATH:3, 5, 9 in FUNCTION``, by function in the order of the first one."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for source in sources[:_LINES_LISTED]:
        frame = re.match(r"(.+?):(\d+)(?: in ([^:]+))?", source)
        if frame is not None:
            numbers.setdefault((frame[1], frame[3] or ""), []).append(int(frame[2]))
    parts = (
        f"{path}:{', '.join(map(str, sorted(set(own))))}" + (f" in {function}" if function else "")
        for (path, function), own in numbers.items()
    )
    rest = len(sources) - _LINES_LISTED
    return "; ".join(parts) + (f"; and {rest} more" if rest > 0 else "")


def source_lines(first: FirstDivergence) -> list[str]:
    """Return the source line of the call with the code around it; of both runs where they differ."""
    lines = []
    for number, call in enumerate(first.calls):
        other = _TITLES[call.run]
        title, side = (other, "") if number else ("source", first.source_side)
        if call.source:
            lines += [f"  {title}: {call.source}{side}", *(f"    {line}" for line in excerpt(call.stack))]
    return lines


def summary_json(summary: CompareSummary) -> str:
    """Return the summary as JSON, as the schema ``compare_summary`` describes it."""
    return json.dumps(summary.document(), ensure_ascii=False, indent=1)


def write_summary(summary: CompareSummary, path: Path) -> None:
    """Write the summary as JSON to ``path``, readable by this user only; an existing file is replaced in one step.

    A missing folder is created.

    Raises:
        MsprobeException: the folder cannot be written.
    """
    try:
        make_folder(path.absolute().parent)
        write_atomic(path, [summary_json(summary).encode("utf-8", "backslashreplace"), b"\n"])
    except OSError as error:
        reason = f"the summary cannot be written to {path} ({error.strerror}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
