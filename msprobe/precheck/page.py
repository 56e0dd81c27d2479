"""The HTML report of an accuracy pre-check: one file that works from a disk, without a network and without a script."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msprobe import __version__
from msprobe.compare.records.source_lines import frame_of, source_frame
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.precheck.checked_call import Status
from msprobe.precheck.outcome import PrecheckResult
from msprobe.report.html.page import page_style, page_template

_TEMPLATE = Path(__file__).with_name("page.html.j2")


def write_page(path: Path, result: PrecheckResult) -> None:
    """Write the report, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
        MsprobeException: jinja2 is not installed.
    """
    template = page_template(_TEMPLATE)
    values = {
        "result": result,
        "counts": {str(status): result.counts[status] for status in Status},
        "stacks": {call.name: _frames(result.stacks.get(call.name, [])) for call in result.failing},
        "skipped": [call for call in result.calls if call.status is Status.SKIP],
        "style": page_style(),
        "version": __version__,
        "made": datetime.now().astimezone().replace(microsecond=0),
    }
    make_folder(path.absolute().parent)
    write_atomic(path, [template.render(values).encode("utf-8", "backslashreplace")])


def _frames(stack: list[str]) -> list[tuple[str, bool]]:
    """Return the text of each frame, and whether it is the line of the user's program that made the call."""
    shown = source_frame(stack)
    return [(frame.text, frame == shown) for frame in map(frame_of, stack)]
