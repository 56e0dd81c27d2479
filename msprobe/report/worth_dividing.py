"""Whether a pair of dumps is shared by several processes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from msprobe.core.store.layout import DUMP, JOURNAL
from msprobe.core.store.reader import Place
from msprobe.report.outcome import PairOptions

WORTH_BYTES = 4_000_000  # below, a copy of this process costs what it saves


def may_divide(places: tuple[Place, Place], options: PairOptions) -> bool:
    """Whether several processes may share a pair: a large one of which only a csv table is wanted, whose calls pair by
    their names, and whose verdicts need no look at all records."""
    reports = options.xlsx or options.failures or options.pages is not None
    if options.processes < 2 or options.output is None or reports or options.noise is not None or options.config:
        return False
    if options.mapping.given or options.mapping.spread:
        return False
    if not all(map(_is_large, places)):
        return False
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
