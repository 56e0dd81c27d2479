"""How serious a difference of two set-ups is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Level = Literal["pass", "warning", "error"]
ORDER: tuple[Level, ...] = ("pass", "warning", "error")


def worst(levels: Iterable[Level]) -> Level:
    """Return the most serious level; ``pass`` of none."""
    return max(levels, key=ORDER.index, default="pass")
