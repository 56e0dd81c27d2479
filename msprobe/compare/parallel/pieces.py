"""What ranks and micro batches hold of one tensor, and how pieces make the whole: copies, cuts and partial sums.

A cut needs no axis: the statistics of a whole follow from those of its pieces wherever they were cut. Of a sum only the
mean and the projection follow, which are linear; its norm and its extremes lie between bounds (triangle inequality).
A bounded statistic agrees with a number where the interval holds it (``Piece.record``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from msprobe.core.store.record_walk import OF_ONE_PROCESS, SHARD, damage_of, has_no_values, is_tensor
from msprobe.core.tensors.projection import KEY as PROJECTION
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.merged_statistics import Shard, merged_statistics
from msprobe.numerics.tolerance import unit_roundoff, with_digits
from msprobe.trace.leaves import bounded, element_count, is_shape
from msprobe.trace.likeness import is_complex

_MAX, _MIN, _MEAN, _NORM = STATISTIC_NAMES
_CLOSE = 1e-6
_CUTS = frozenset({"Shard", "StridedShard"})
"""Placements of a DTensor that cut it; strided is what data parallelism makes of a tensor that is cut already."""
_ON_ONE_RANK = OF_ONE_PROCESS | {"placements", "device_mesh", SHARD}


class Interval(NamedTuple):
    """Where a statistic lies; both ends are equal where it is known."""

    low: float
    high: float

    def nearest(self, other: Interval | None) -> float:
        """Return the number of this interval that is nearest to ``other``: the same for both where they overlap, the
        middle without ``other``."""
        if other is None or other.low != other.low:
            return (self.low + self.high) / 2
        return min(max(self.low, other.low), self.high)


@dataclass(frozen=True, slots=True)
class Piece:
    """The statistics of a piece, or of what several pieces make.

    Attributes:
        numel: its number of elements.
        largest: its largest element, in the unit of the data, as the next four.
        smallest: its smallest element.
        mean: the mean of its elements; None where none was recorded (flags).
        norm: its L2 norm.
        projection: its order-sensitive sum; None where the order is not known.
        raw: the record of its first part.
        merged: whether several pieces made it.
    """

    numel: int
    largest: Interval
    smallest: Interval
    mean: float | None
    norm: Interval | None
    projection: float | None
    raw: dict[str, Any]
    merged: bool = False

    def agrees(self, other: Piece) -> bool:
        """Return whether two pieces are copies of each other, as far as their statistics tell."""
        if self.numel != other.numel or self.raw.get("shape") != other.raw.get("shape"):
            return False
        pairs = [(self.largest, other.largest), (self.smallest, other.smallest)]
        pairs += [(self.norm, other.norm)] if self.norm and other.norm else []
        numbers = [(left.low, right.low) for left, right in pairs]
        numbers += [
            (left, right)
            for left, right in ((self.mean, other.mean), (self.projection, other.projection))
            if left is not None and right is not None
        ]
        size = self.norm.high if self.norm else 0.0
        return all(
            left == right
            or (left != left and right != right)
            or math.isclose(left, right, rel_tol=_CLOSE, abs_tol=_CLOSE * size)
            for left, right in numbers
        )

    def scaled(self, factor: float) -> Piece:
        """Return what the piece is times a positive ``factor``."""
        if factor == 1.0:
            return self
        top, low = (Interval(each.low * factor, each.high * factor) for each in (self.largest, self.smallest))
        return replace(
            self,
            largest=top,
            smallest=low,
            mean=None if self.mean is None else self.mean * factor,
            norm=self.norm and Interval(self.norm.low * factor, self.norm.high * factor),
            projection=None if self.projection is None else self.projection * factor,
            merged=True,
        )

    def as_shard(self, end: int) -> Shard:
        """Return the lower (0) or upper (1) ends of the statistics in the order of the table of statistics; NaN for one
        that is not known."""
        norm = self.norm[end] if self.norm else math.nan
        mean = math.nan if self.mean is None else self.mean
        return Shard((self.largest[end], self.smallest[end], mean, norm), self.numel)

    def without_order(self) -> Piece:
        """Return the piece without what depends on the order of its elements."""
        return replace(self, projection=None, raw={k: v for k, v in self.raw.items() if k != PROJECTION})

    def record(self, other: Piece | None, shape: Sequence[int]) -> dict[str, Any]:
        """Return the record of the whole beside that of the other side; bounded statistics are those nearest to that
        side's. ``shape`` is that of the whole."""
        if not self.merged:
            return {key: value for key, value in self.raw.items() if key not in _ON_ONE_RANK} | {"shape": list(shape)}
        digits = unit_roundoff(str(self.raw.get("dtype", "")))
        mean = self.mean
        if mean is None and other is not None and is_complex(self.raw):
            mean = other.mean  # anything up to the root mean square of a sum of complex numbers, which the norm tells
        values: dict[str, Any] = {
            _MAX: self.largest.nearest(other.largest if other else None),
            _MIN: self.smallest.nearest(other.smallest if other else None),
            _MEAN: mean if mean is None else with_digits(mean, digits),
            _NORM: self.norm and with_digits(self.norm.nearest(other.norm if other else None), digits),
        }
        if self.projection is not None:
            values[PROJECTION] = self.projection
        kept = {key: value for key, value in self.raw.items() if key not in (*_ON_ONE_RANK, PROJECTION)}
        return {**kept, "shape": list(shape), **values}


def piece_of(raw: Any) -> Piece | None:
    """Return the piece that a recorded tensor is; None for anything else, and for a tensor without statistics."""
    if not is_tensor(raw) or not is_shape(raw["shape"]):
        return None
    top, low, mean, norm = (bounded(raw.get(name)) for name in STATISTIC_NAMES)
    if not _is_number(top) or not _is_number(low):
        return None
    return Piece(
        numel=math.prod(raw["shape"]) // shards(raw),
        largest=Interval(top, top),
        smallest=Interval(low, low),
        mean=mean if _is_number(mean) else None,
        norm=Interval(norm, norm) if _is_number(norm) else None,
        projection=bounded(raw[PROJECTION]) if _is_number(raw.get(PROJECTION)) and shards(raw) == 1 else None,
        raw=raw,
    )


def lost_statistics(raws: Iterable[Any]) -> dict[str, Any] | None:
    """Return what the whole of recorded pieces has instead of statistics where one of them is damaged, with the damage,
    or lacks a statistic that another one has; None where none is lost."""
    tensors = [raw for raw in raws if is_tensor(raw)]
    nothing = dict.fromkeys((*STATISTIC_NAMES, PROJECTION))
    for raw in tensors:
        if field := damage_of(raw).partition(":")[0]:
            return {**nothing, field: raw[field]}
    filled = [raw for raw in tensors if shards(raw) == 1 and element_count(raw) > 0 and not has_no_values(raw)]
    lacking = (len({raw.get(name) is None for raw in filled}) > 1 for name in STATISTIC_NAMES)
    return nothing if any(lacking) else None


def lacks_order(raws: Iterable[Any]) -> bool:
    """Return whether one of several recorded pieces has no projection, and another one has."""
    return len({raw.get(PROJECTION) is None for raw in raws if is_tensor(raw)}) > 1


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return the tensor that was cut into these pieces."""
    filled = [piece for piece in pieces if piece.numel] or list(pieces[:1])
    if len(filled) == 1:
        return filled[0]
    means, norms = [piece.mean for piece in filled], [piece.norm for piece in filled]
    low, high = (merged_statistics([piece.as_shard(end) for piece in filled]) for end in (0, 1))
    largest, smallest, mean, norm = (Interval(*both) for both in zip(low.statistics, high.statistics, strict=True))
    orders = (piece.projection for piece in filled if piece.projection is not None)
    return Piece(
        numel=low.numel,
        largest=largest,
        smallest=smallest,
        mean=None if None in means else mean.low,
        norm=None if None in norms else norm,
        projection=next((order for order in orders if not math.isfinite(order)), None),
        raw=filled[0].raw,
        merged=True,
    )


def added(pieces: Sequence[Piece]) -> Piece:
    """Return the sum of these tensors of one shape, with bounds for what does not follow from them."""
    if not any(is_complex(piece.raw) for piece in pieces):
        return _added(pieces)
    whole = _added([_any_phase(piece) for piece in pieces])
    return replace(whole, smallest=Interval(0.0, whole.largest.high))


def _added(pieces: Sequence[Piece]) -> Piece:
    means, turns = [piece.mean for piece in pieces], [piece.projection for piece in pieces]
    norms = [piece.norm for piece in pieces if piece.norm is not None]
    return Piece(
        numel=pieces[0].numel,
        largest=_bounds_of_extreme([piece.largest for piece in pieces], [piece.smallest for piece in pieces]),
        smallest=_negative(
            _bounds_of_extreme(
                [_negative(piece.smallest) for piece in pieces], [_negative(piece.largest) for piece in pieces]
            )
        ),
        mean=None if None in means else math.fsum(each for each in means if each is not None),
        norm=None if len(norms) < len(pieces) else _bounds_of_norm(norms),
        projection=None if None in turns else math.fsum(each for each in turns if each is not None),
        raw=pieces[0].raw,
        merged=True,
    )


def _any_phase(piece: Piece) -> Piece:
    """Return a tensor of complex elements as one of real elements of either sign: of their magnitudes, which are
    recorded, neither mean nor projection adds up."""
    return replace(piece, smallest=_negative(piece.largest), mean=None, projection=None)


def _bounds_of_extreme(largest: Sequence[Interval], smallest: Sequence[Interval]) -> Interval:
    """Return the bounds of the largest element of a sum of tensors."""
    rest = math.fsum(each.low for each in smallest)
    lows = [top.low + rest - least.low for top, least in zip(largest, smallest, strict=True)]
    return Interval(max(lows), math.fsum(each.high for each in largest))


def _bounds_of_norm(norms: Sequence[Interval]) -> Interval:
    total = math.fsum(each.high for each in norms)
    return Interval(max(0.0, *(each.low - (total - each.high) for each in norms)), total)


def _negative(interval: Interval) -> Interval:
    return Interval(-interval.high, -interval.low)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def shards(raw: Any) -> int:
    """Return into how many parts recorded placements cut a tensor, of which the record has one."""
    placements, mesh = (raw.get(key) if isinstance(raw, dict) else None for key in ("placements", "device_mesh"))
    if not isinstance(placements, list) or not isinstance(mesh, list):
        return 1
    parts = 1
    for placement in placements:
        if not isinstance(mesh, list):
            break
        if isinstance(placement, dict) and not _CUTS.isdisjoint(placement):
            parts *= len(mesh)
        mesh = mesh[0] if mesh else None
    return max(parts, 1)
