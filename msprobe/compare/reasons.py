"""Why a row is not a pass, in one sentence."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import Leaf, is_tensor
from msprobe.numerics.verdict import Floats, Ints, Judged, Kind, Role

_SHOWN = 60
_PARTS = ("largest element", "mean", "norm", "the order of the elements (projection)")
_UNCHECKED = "values are missing on a side, so this row could not be checked"
_FIXED = {
    Kind.UNINITIALISED: "memory nobody has written yet; its content means nothing",
    Kind.NON_FINITE: "NaN or infinity where the other run has none or another one",
    Kind.MISSING_IN_TARGET: "no value (null) in the target, a value in the golden run",
    Kind.MISSING_IN_GOLDEN: "no value (null) in the golden run, a value in the target",
}


class Differences(Protocol):
    """What sentences need of ``Measured``."""

    @property
    def role(self) -> Ints: ...
    @property
    def element(self) -> Floats: ...
    @property
    def mean(self) -> Floats: ...
    @property
    def norm(self) -> Floats: ...
    @property
    def projection(self) -> Floats: ...


class Reasons:
    """Makes the sentences for the rows of one comparison."""

    def __init__(self, measured: Differences, judged: Judged, rows: slice = slice(None)) -> None:
        """``rows`` are those that will be asked for, if not all."""
        self._first = rows.start or 0
        values = (measured.element, measured.mean, measured.norm, measured.projection)
        parts = np.stack([one[rows] for one in values], axis=1)
        times, tolerance = judged.times[rows], judged.tolerance[rows]
        part = _deciding(parts, times, tolerance)
        worst = np.take_along_axis(parts, part[:, None], axis=1)[:, 0]
        result = measured.role[rows] == Role.RESULT
        self._columns: tuple[NDArray[Any], ...] = worst, part, times, tolerance, result

    def text(self, kind: int, row: int, ours: Leaf | None, theirs: Leaf | None) -> str:
        """Return the sentence for a row of this kind; ``ours`` and ``theirs`` are its leaves."""
        if ours is None or theirs is None:
            return f"only the {'golden' if ours is None else 'target'} run has this value"
        if kind == Kind.VALUE:
            return _of_value(*(one.item(row - self._first) for one in self._columns))
        left, right = ours.raw, theirs.raw
        if kind == Kind.SHAPE:
            return f"shape {_field(left, 'shape')} in the target, {_field(right, 'shape')} in the golden run"
        if kind == Kind.DTYPE:
            return f"dtype {_field(left, 'dtype')} in the target, {_field(right, 'dtype')} in the golden run"
        if kind == Kind.ARGUMENT:
            return f"argument {_argument(left, right)} in the target, {_argument(right, left)} in the golden run"
        if kind == Kind.UNCHECKED and not (is_tensor(left) and is_tensor(right)):
            return f"the sides tell this argument differently ({_argument(left, right)}, {_argument(right, left)})"
        return _FIXED.get(Kind(kind), _UNCHECKED)

    def of_values(self, rows: Ints) -> list[str]:
        """Return the sentences of many rows of the kind ``VALUE``; ``rows`` are their numbers."""
        at = rows - self._first
        return list(map(_of_value, *(one[at].tolist() for one in self._columns)))


def _of_value(worst: float, part: int, times: float, tolerance: float, result: bool) -> str:
    if worst == math.inf:
        return "the checksums differ"
    tail = ", more than rounding and its inputs explain" if result else ""
    allowed = f"{times:.3g} times the {tolerance:.2g} allowed" if tolerance else "where none is allowed"
    return f"{_PARTS[part]} differs by {worst:.3g} of the tensor's scale, {allowed}{tail}"


def _deciding(parts: Floats, times: Floats, tolerance: Floats) -> Ints:
    """Return for each row the part whose difference is ``times`` the ``tolerance``; the largest one where nothing is
    allowed. ``parts`` has shape (rows, parts).
    """
    if not len(parts):
        return np.zeros(0, np.int64)
    with np.errstate(all="ignore"):
        off = np.abs(parts / tolerance[:, None] - times[:, None])
    off = np.nan_to_num(off, nan=np.inf, posinf=np.inf)
    return np.asarray(np.where(np.isfinite(off.min(axis=1)), off.argmin(axis=1), parts.argmax(axis=1)))


def _field(raw: Any, name: str) -> object:
    return raw.get(name) if isinstance(raw, dict) else None


def _argument(raw: Any, other: Any) -> str:
    if isinstance(raw, dict):
        for key in ("type", "value", "group_ranks", "format", "p2p", "requires_grad"):
            if key in raw and (not isinstance(other, dict) or other.get(key) != raw[key]):
                text = f"{key} {raw[key]}" if key not in ("value", "type") else str(raw[key])
                return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    text = str(raw.get("value", raw) if isinstance(raw, dict) else raw)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
