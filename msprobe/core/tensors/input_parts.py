"""A part of a recorded tensor that a process is fed: its file, and the ranges that belong to the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

AxisRanges = tuple[int, tuple[tuple[int, int], ...]]
"""An axis, and the ranges of its indices that belong together, each with its first index and the one behind it."""


class InputPart(NamedTuple):
    """A file with a recorded tensor, and which part of it is wanted; without ranges the whole. ``through``: gradients
    go on to the live tensor that it replaces."""

    file: Path
    ranges: tuple[AxisRanges, ...] = ()
    through: bool = False


def cut(tensor: Any, ranges: tuple[AxisRanges, ...]) -> Any:
    """Return the part of an array or tensor of any framework.

    Raises:
        IndexError: the tensor has no such axis.
    """
    for axis, pieces in ranges:
        index: Any = [number for begin, end in pieces for number in range(begin, end)]
        if len(pieces) == 1:
            index = slice(pieces[0][0], pieces[0][1])
        tensor = tensor[(slice(None),) * axis + (index,)]
    return tensor
