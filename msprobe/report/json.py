"""The summary of a comparison as JSON, to a file that is new or to standard output."""

from __future__ import annotations

import json
from pathlib import Path

from msprobe.compare.summary import CompareSummary
from msprobe.core.errors import MsprobeException
from msprobe.core.store.atomic import make_folder, write_atomic


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
