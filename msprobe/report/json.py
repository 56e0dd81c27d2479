"""The summary of a comparison as JSON, to a file that is new or to standard output."""

from __future__ import annotations

import json
from pathlib import Path

from msprobe.compare.summary import CompareSummary
from msprobe.core.store.atomic import write_atomic


def summary_json(summary: CompareSummary) -> str:
    """The document described by the schema ``compare_summary``."""
    return json.dumps(summary.document(), ensure_ascii=False, indent=1)


def write_summary(summary: CompareSummary, path: Path) -> None:
    """Write the document to ``path``, private to the user, replacing an earlier one in one step.

    Raises:
        OSError: the folder cannot be written.
    """
    write_atomic(path, [summary_json(summary).encode("utf-8", "backslashreplace"), b"\n"])
