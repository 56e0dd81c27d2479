"""The files of the gradient probe: ``rank{r}/grad_summary_{step}.csv`` and ``rank{r}/step{s}/{parameter}.npy``."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, make_folder_below, write_atomic
from msprobe.monitor.grad_probe.signs import Signs


@dataclass(frozen=True, slots=True)
class GradientFacts:
    """What is kept of one gradient.

    Attributes:
        name: the name of its parameter.
        shape: its shape.
        max, min, norm: statistics; None for a gradient without elements.
        checksum: CRC-32 of its elements as float32 (L0), else "".
        signs: the signs of its elements (L1, L2).
        shares: the share of elements in each interval, then that of zeros (L2).
    """

    name: str
    shape: tuple[int, ...]
    max: float | None
    min: float | None
    norm: float | None
    checksum: str = ""
    signs: Signs | None = None
    shares: tuple[float, ...] = ()


def columns_of(level: str, bounds: Sequence[float]) -> list[str]:
    """Return the titles of ``grad_summary`` for a level."""
    extra = {"L0": ["MD5"], "L2": interval_titles(bounds)}.get(level, [])
    return ["param_name", *extra, "max", "min", "norm", "shape"]


def interval_titles(bounds: Sequence[float]) -> list[str]:
    """Return the titles of the intervals between the bounds, and of zero: ``(-inf, -1]``, ..., ``(1, inf)``, ``=0``."""
    if not bounds:
        return ["(-inf, inf)", "=0"]
    shown = [f"{one:g}" for one in bounds]
    inner = [f"({left}, {right}]" for left, right in pairwise(shown)]
    return [f"(-inf, {shown[0]}]", *inner, f"({shown[-1]}, inf)", "=0"]


class ProbeFiles:
    """Writes what one rank has measured.

    Args:
        root: the ``dump_path``.
        rank: the rank of this process.
        level: L0, L1 or L2.
        bounds: the ends of the intervals.
    """

    def __init__(self, root: Path, rank: int, level: str, bounds: Sequence[float]) -> None:
        self._root = root
        self._folder = root / f"rank{rank}"
        self._level = level
        self._columns = columns_of(level, bounds)
        self._rows: dict[int, list[list[Any]]] = {}

    def write(self, step: int, facts: Sequence[GradientFacts]) -> None:
        """Write the gradients of one step; those of a further optimizer with the same number are added.

        Raises:
            OSError: a file cannot be written.
        """
        make_folder(self._folder)
        rows = self._rows.setdefault(step, [])
        rows += [self._row(one) for one in facts]
        for old in [number for number in self._rows if number < step - 1]:
            del self._rows[old]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self._columns, *rows])
        write_atomic(self._folder / f"grad_summary_{step}.csv", [text.getvalue().encode()])
        signs = self._folder / f"step{step}"
        for one in facts:
            if one.signs is not None:
                make_folder_below(self._root, signs)
                one.signs.write(signs / file_name(one.name, ".npy"))

    def _row(self, facts: GradientFacts) -> list[Any]:
        further: dict[str, list[Any]] = {"L0": [facts.checksum], "L2": list(facts.shares)}
        extra = further.get(self._level, [])
        numbers = ["nan" if value is None else value for value in (facts.max, facts.min, facts.norm)]
        return [facts.name, *extra, *numbers, list(facts.shape)]
