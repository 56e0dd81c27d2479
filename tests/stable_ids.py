"""Test ids that are the same in every process: pytest-xdist compares what its workers collected."""

from __future__ import annotations

import re


def stable_id(value: object) -> str:
    """The value's text with sets in order and without memory addresses."""
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(repr, value))) + "}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
