"""The HTML report of a comparison: one file that works from a disk, without a network.

It holds the summary, the first divergence with its source and stack, and per pair of steps and ranks a table that can
be sorted and searched and a chart of the deviation over depth. Tables are embedded compressed, those of diverged pairs
first, up to ``MOST_BYTES``; the others are named with their files.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msprobe import __version__
from msprobe.compare.records.call_source import source_line
from msprobe.compare.rows.summary import CompareSummary
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.report.rank_outcome import PairOutcome

MOST_BYTES = 96_000_000
_FOLDER = Path(__file__).parent
_ORDER = {"diverged": 0, "not_comparable": 1, "same": 2}


def write_page(path: Path, summary: CompareSummary, outcomes: Sequence[PairOutcome]) -> None:
    """Write the report, replacing an earlier one in one step.

    Raises:
        OSError: it cannot be written.
        MsprobeException: jinja2 is not installed.
    """
    template = _template()
    make_folder(path.absolute().parent)
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    tables = _embedded(outcomes)
    values = {
        "summary": summary,
        "pairs": [_pair(outcome, outcome.order in tables) for outcome in outcomes],
        "source": source_line(summary.first_divergence.stack) if summary.first_divergence else "",
        "tables": {order: _Table(place) for order, place in tables.items()},
        "style": style,
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": __version__,
    }
    write_atomic(path, (piece.encode("utf-8", "backslashreplace") for piece in template.generate(values)))


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
        reason = f"{error_text(error)}; --html needs the extra `report` (pip install 'msprobe[report]')"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return jinja2


def _template() -> Any:
    jinja2 = load_library()
    loader = jinja2.FileSystemLoader(_FOLDER)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(
        "page.html.j2"
    )


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
        "first": (found.target or found.golden or "") if found else outcome.problem,
        "results": outcome.results,
        "embedded": embedded,
    }
