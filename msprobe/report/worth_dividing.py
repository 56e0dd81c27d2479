"""Whether a pair of dumps is shared by several processes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from msprobe.core.store.layout import DUMP, JOURNAL
from msprobe.core.store.reader import Place
from msprobe.report.outcome import PairOptions

WORTH_BYTES = 4_000_000  # below, a copy of this process costs what it saves


WORTH_ROWS = 10_000


def may_divide(places: tuple[Place, Place], options: PairOptions) -> bool:
    """Whether several processes may read a pair: a large one whose calls pair by their names, and whose verdicts need
    no look at all records."""
    if not _may_share(options) or options.noise is not None or options.config:
        return False
    if options.mapping.given or options.mapping.spread or not all(map(_is_large, places)):
        return False
    return _can_fork()


def may_share_rows(rows: int, options: PairOptions) -> bool:
    """Whether several processes may make the rows of a pair that one of them has compared."""
    return _may_share(options) and rows > WORTH_ROWS and _can_fork()


def _may_share(options: PairOptions) -> bool:
    """Whether the rows become text that other processes can make; a workbook is written by one."""
    return options.processes > 1 and options.output is not None and not options.xlsx


def _can_fork() -> bool:
    from msprobe.compare.divided.forked import can_fork  # what divides is not free

    return can_fork()


def _is_large(place: Place) -> bool:
    """Whether a finished document lies in a file, and is large."""
    document = place.document
    if type(place) is not Place or not isinstance(cast(object, document), Path) or document.name != DUMP:
        return False
    try:
        return document.stat().st_size > WORTH_BYTES and not document.with_name(JOURNAL).exists()
    except OSError:
        return False
