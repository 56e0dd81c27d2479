"""The HTML report of a comparison: one file that works from a disk, without a network.

It holds the summary, the first divergence with its source and stack, and per pair of steps and ranks a table that can
be sorted and searched and a chart of the deviation over depth. Tables are embedded compressed, those of diverged pairs
first, up to ``MOST_BYTES``; the others are named with their files.
"""

from __future__ import annotations

import base64
import hashlib
import webbrowser
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from msprobe import __version__
from msprobe.compare.agreement import AS_FAR, WHY
from msprobe.compare.records.source_lines import frame_of, source_frame
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import imported_whole
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.report.rank_outcome import PairOutcome
from msprobe.report.summary_text import accepted_text

MOST_BYTES = 96_000_000
_NOTEBOOK_HEIGHT = 640
_FOLDER = Path(__file__).parent
_ORDER = {"diverged": 0, "not_comparable": 1, "incomplete": 2, "same": 3}


def write_page(path: Path, summary: CompareSummary, outcomes: Sequence[PairOutcome]) -> None:
    """Write the report, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
        MsprobeException: jinja2 is not installed.
    """
    template = page_template(_FOLDER / "page.html.j2")
    make_folder(path.absolute().parent)
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    tables = _embedded(outcomes)
    values = {
        "summary": summary,
        "pairs": [_pair(outcome, outcome.order in tables) for outcome in outcomes],
        "stacks": _stacks(summary.first_divergence),
        "tables": {order: _Table(place) for order, place in tables.items()},
        "accepted": accepted_text(summary),
        "as_far": AS_FAR,
        "why": WHY,
        "style": page_style(),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": __version__,
        "made": datetime.now().astimezone().replace(microsecond=0),
    }
    write_atomic(path, (piece.encode("utf-8", "backslashreplace") for piece in template.generate(values)))


def show_page(page: Path) -> None:
    """Show a page that needs nothing but itself: below the cell of a notebook, or in the browser."""
    ipython = imported_whole("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or shell is None or not hasattr(shell, "kernel"):
        webbrowser.open(page.as_uri())
        return
    text = escape(page.read_text(encoding="utf-8"), quote=True)
    frame = f'<iframe srcdoc="{text}" width="100%" height="{_NOTEBOOK_HEIGHT}" sandbox="allow-scripts"></iframe>'
    ipython.display.display(ipython.display.HTML(frame))


class _Table:
    """A packed table on its way into the page, read when its turn comes."""

    def __init__(self, place: str) -> None:
        self._place = Path(place)

    def lines(self) -> Iterator[str]:
        """The file as base64, in pieces."""
        with self._place.open("rb") as file:
            while piece := file.read(3 << 20):
                yield base64.b64encode(piece).decode()


def load_library() -> Any:
    """Import jinja2 and return it; called before the comparison, so that nobody waits for a page that cannot be made.

    Raises:
        MsprobeException: it is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        reason = f"{error_text(error)}; --html needs it (pip install jinja2)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return jinja2


def page_template(path: Path) -> Any:
    """Return the template of a page; what it is given is escaped.

    Raises:
        MsprobeException: jinja2 is not installed.
    """
    jinja2 = load_library()
    loader = jinja2.FileSystemLoader(path.parent)
    settings = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=loader, **settings).get_template(path.name)


def page_style() -> str:
    """Return the style sheet of all pages."""
    return (_FOLDER / "page.css").read_text(encoding="utf-8")


def _embedded(outcomes: Sequence[PairOutcome]) -> dict[int, str]:
    """Files of the tables that find room, by pair."""
    chosen: dict[int, str] = {}
    left = MOST_BYTES
    for outcome in sorted(outcomes, key=lambda outcome: (_ORDER[outcome.verdict], outcome.order)):
        if outcome.page is not None:
            left -= Path(outcome.page).stat().st_size
            if left < 0 and chosen:
                break
            chosen[outcome.order] = outcome.page
    return chosen


class _Stack(NamedTuple):
    """A call stack as the page shows it; ``frames`` has of each frame its text, and whether it is folded away."""

    side: str
    source: str
    frames: list[tuple[str, bool]]


def _stacks(first: FirstDivergence | None) -> list[_Stack]:
    """Return the stacks of the first divergence: of the run that has the call, of both where their lines differ."""
    if first is None:
        return []
    return [_Stack(call.run, call.source, _frames(call.stack)) for call in first.calls if call.stack]


def _frames(stack: list[str]) -> list[tuple[str, bool]]:
    shown = source_frame(stack)
    return [(frame.text, frame.is_library and frame != shown) for frame in map(frame_of, stack)]


def _pair(outcome: PairOutcome, embedded: bool) -> dict[str, Any]:
    found = outcome.first_divergence
    return {
        "order": outcome.order,
        "step": outcome.step,
        "label": outcome.label,
        "place": outcome.place,
        "verdict": outcome.verdict,
        "pass": outcome.counts.passed,
        "warning": outcome.counts.warning,
        "error": outcome.counts.error,
        "first": found.name if found else outcome.problem or "; ".join(outcome.lost),
        "culprit": {"target": found.target, "golden": found.golden, "slot": found.slot} if found else None,
        "results": outcome.results,
        "embedded": embedded,
    }
