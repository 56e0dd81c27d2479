"""``list`` and ``tensor_list``: select entries by their names.

A full entry name (``Functional.linear.1.forward``) means exactly that entry, a fragment (``relu``, ``fc2``) every
entry whose name contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msprobe.core.naming import NameSyntaxError, parse_entry

NameTest = Callable[[str], bool]


def name_test(items: Sequence[str]) -> NameTest | None:
    """Return a test for entry names; None when ``items`` is empty, so that nothing is filtered."""
    if not items:
        return None
    exact = frozenset(item for item in items if is_entry(item))
    fragments = tuple(item for item in items if item not in exact)
    if not fragments:
        return exact.__contains__

    def matches(name: str) -> bool:
        return name in exact or any(fragment in name for fragment in fragments)

    return matches


def is_entry(text: str) -> bool:
    """Return whether ``text`` is a complete entry name."""
    try:
        parse_entry(text)
    except NameSyntaxError:
        return False
    return True
