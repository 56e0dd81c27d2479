"""``risk_level``: which APIs are worth recording when neither scope nor list says so.

CORE keeps the computing and communicating operators, FOCUS drops those that only move, cast or create data, ALL keeps
all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection


def risk_test(level: str, core: Collection[str], low: Collection[str]) -> Callable[[str], bool]:
    """A test over API names (the part between prefix and call number) for ``level`` CORE, FOCUS or ALL."""
    core_names, low_names = frozenset(core), frozenset(low)
    if level == "CORE":
        return core_names.__contains__
    if level == "FOCUS":
        return lambda api: api not in low_names
    return lambda api: True
