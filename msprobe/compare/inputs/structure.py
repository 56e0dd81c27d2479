"""Dumps of task ``structure``, which hold the calls of a program and none of their values.

They can show that one run makes other calls than the other one, and nothing else: two such dumps with the same calls
are no agreement of values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump

STRUCTURE = "structure"


def with_calls(dump: Dump) -> Dump:
    """Return a dump of task ``structure`` with an empty record for each call of its hierarchy; any other one stays."""
    if dump.task != STRUCTURE or dump.data:
        return dump
    return replace(dump, data={name: {} for name in dump.construct})


def raise_where_equal(alone: Collection[int], target: Dump) -> None:
    """Refuse a verdict on two dumps of task ``structure`` whose calls are the same; ``alone`` are those of one side.

    Raises:
        NotComparableError: there is no call of one side alone.
    """
    if target.task == STRUCTURE and not alone:
        raise NotComparableError(
            "both runs make the same calls, and dumps of task structure hold no values to compare "
            f"({target.place.document}); record statistics"
        )
