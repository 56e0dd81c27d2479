"""The summary of a comparison: ``summary_text`` for a terminal, ``summary_json`` and ``write_summary`` for programs."""

from __future__ import annotations

import json
from pathlib import Path

from msprobe.compare.records.call_source import source_line
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.core.errors import MsprobeException
from msprobe.core.store.safe_files import make_folder, write_atomic

_LISTED = 8
_WORDS = {"same": "SAME", "diverged": "DIVERGED", "not_comparable": "NOT COMPARABLE"}


def summary_text(summary: CompareSummary) -> str:
    """Return verdict, counts, the first divergence with its module and source line, and the paths of the tables."""
    lines = [f"Verdict: {_WORDS[summary.verdict]}" + (f" ({summary.reason})" if summary.reason else "")]
    counts = summary.counts
    if summary.verdict != "not_comparable" or counts.pairs:
        lines.append(
            f"Rows: {counts.pairs} pairs: {counts.passed} pass, {counts.warning} warning, {counts.error} error; "
            f"{counts.target_only} only in the target, {counts.golden_only} only in the golden run"
        )
    if summary.first_divergence is not None:
        lines.extend(_divergence_lines(summary.first_divergence))
    lines.extend(_listed("Not compared", summary.unpaired))
    lines.extend(_listed("Table", summary.results))
    return "\n".join(lines)


def _listed(title: str, items: list[str]) -> list[str]:
    """Return a line per item; of many items the first ones, and a line that says how many more there are."""
    lines = [f"{title}: {item}" for item in items[:_LISTED]]
    rest = len(items) - _LISTED
    return [*lines, f"{title}: ... and {rest} more"] if rest > 0 else lines


def _divergence_lines(first: FirstDivergence) -> list[str]:
    where = "" if first.step is None else f" in step {first.step}"
    if first.rank is not None:
        where += f", rank {first.rank}"
    name = first.target if first.target == first.golden else f"{first.target or '-'} (golden: {first.golden or '-'})"
    lines = [f"First divergence{where}: {name}", f"  kind:   {first.kind}", f"  reason: {first.reason}"]
    if first.module:
        lines.append(f"  module: {first.module}")
    if first.worst_index is not None:
        values = f"{first.worst_target} against {first.worst_golden}"
        lines.append(f"  worst:  element {first.worst_index}: {values}; the first to differ is {first.first_index}")
    source = source_line(first.stack)
    if source:
        lines.append(f"  source: {source}")
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
