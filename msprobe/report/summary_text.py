"""The summary of a comparison in a few lines for a terminal.

The summary of a comparison as JSON, to a file that is new or to standard output.
"""

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
    """Verdict, counts, the first divergence with its module and source line, and where the tables are."""
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
    """A line per item, and one for all that are too many for a terminal."""
    lines = [f"{title}: {item}" for item in items[:_LISTED]]
    rest = len(items) - _LISTED
    return [*lines, f"{title}: ... and {rest} more"] if rest > 0 else lines


def _divergence_lines(found: FirstDivergence) -> list[str]:
    where = "" if found.step is None else f" in step {found.step}"
    if found.rank is not None:
        where += f", rank {found.rank}"
    name = found.target if found.target == found.golden else f"{found.target or '-'} (golden: {found.golden or '-'})"
    lines = [f"First divergence{where}: {name}", f"  kind:   {found.kind}", f"  reason: {found.reason}"]
    if found.module:
        lines.append(f"  module: {found.module}")
    if found.worst_index is not None:
        values = f"{found.worst_target} against {found.worst_golden}"
        lines.append(f"  worst:  element {found.worst_index}: {values}; the first to differ is {found.first_index}")
    source = source_line(found.stack)
    if source:
        lines.append(f"  source: {source}")
    return lines


def summary_json(summary: CompareSummary) -> str:
    """The document described by the schema ``compare_summary``."""
    return json.dumps(summary.document(), ensure_ascii=False, indent=1)


def write_summary(summary: CompareSummary, path: Path) -> None:
    """Write the document to ``path``, private to the user, replacing an earlier one in one step.

    A missing folder is made.

    Raises:
        MsprobeException: the folder cannot be written.
    """
    try:
        make_folder(path.absolute().parent)
        write_atomic(path, [summary_json(summary).encode("utf-8", "backslashreplace"), b"\n"])
    except OSError as error:
        reason = f"the summary cannot be written to {path} ({error.strerror}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
