"""``risk_level``: select APIs by their risk when neither scope nor list selects them.

CORE keeps the operators that compute or communicate, FOCUS drops those that only move, cast or create data, ALL keeps
every API.
"""

from __future__ import annotations

from collections.abc import Callable, Collection


def risk_test(level: str, core: Collection[str], low: Collection[str]) -> Callable[[str], bool]:
    """Return a test for API names (the part between prefix and call number).

    Args:
        level: CORE, FOCUS or ALL.
        core: the APIs that CORE keeps.
        low: the APIs that FOCUS drops.
    """
    core_names, low_names = frozenset(core), frozenset(low)
    if level == "CORE":
        return core_names.__contains__
    if level == "FOCUS":
        return lambda api: api not in low_names
    return lambda api: True
