"""Which axes of a pair of tensors hold tokens of a request, and which part of both is compared.

``TokenAxes.match`` goes through both shapes from left to right. An axis is cut where both sides may hold the request
there in a way that fits (``request_rows``); any other axis has to be as long on both sides. Axes of length 1 may be
missing on a side, so that a packed (tokens, width) fits a plain (1, tokens, width). Where that works out in several
ways, the one with most cut axes is taken. Shapes cannot tell where a batch is as long on both sides, and several axes
have this length: tokens and a width, or tokens twice. All ways are choices then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from msprobe.compare.inputs.request_rows import ALONE, CONTEXT, LAST, ROW, TOKEN, AxisPart, RequestRows
from msprobe.compare.table.table import Ranges, RowRanges

Shape = tuple[int, ...]
_ROWS = (TOKEN, LAST, ALONE)
_ORDER = {TOKEN: "0", LAST: "1", ROW: "2", ALONE: "3", CONTEXT: "4", "": "5"}
_FITS = {TOKEN: _ROWS, LAST: (*_ROWS, ROW), ALONE: _ROWS, CONTEXT: (CONTEXT,), ROW: (ROW, LAST)}


class TokenAxis(NamedTuple):
    """The axis of the compared part, axes of length 1 left out, that holds tokens; ``position`` is the first of them.

    ``axis`` is None where the part is a single token.
    """

    axis: int | None
    position: int


class Part(NamedTuple):
    """The parts of a pair of tensors that are compared, and where their tokens are."""

    ranges: RowRanges
    tokens: TokenAxis | None


class Match(NamedTuple):
    """What is compared of a pair of tensors.

    Args:
        choices: the parts that fit: one, or several where shapes cannot tell which it is.
        apart: whether both sides hold the request, but no common token.
    """

    choices: tuple[Part, ...] = ()
    apart: bool = False


class _Axis(NamedTuple):
    """One axis of the compared part: the index range on both sides (None where a side lacks it), and its tokens."""

    target: slice | None
    golden: slice | None
    kind: str = ""
    position: int = 0
    apart: bool = False
    optional: bool = False  # it might as well be an axis without tokens
    alone: bool = False  # a side has the rows of the request alone, if this is a call in a loop


@dataclass(slots=True)
class TokenAxes:
    """Finds the parts of tensors that belong to a request.

    Args:
        target: where the request is on both sides.
        golden: the same.
    """

    target: RequestRows
    golden: RequestRows
    _known: dict[tuple[Shape, Shape], Match | None] = field(default_factory=dict)

    @property
    def span(self) -> tuple[int, int]:
        """The positions that both sides have: the first, and that behind the last."""
        return max(self.target.position, self.golden.position), min(self.target.stop, self.golden.stop)

    def match(self, target: Shape, golden: Shape) -> Match | None:
        """Return what is compared of tensors of these shapes; None where they have no axis of tokens in common."""
        shapes = target, golden
        if shapes not in self._known:
            self._known[shapes] = self._best(target, golden)
        return self._known[shapes]

    def _best(self, target: Shape, golden: Shape) -> Match | None:
        found = [axes for axes in self._ways(target, golden) if any(axis.kind for axis in axes)]
        together = [axes for axes in found if not self._is_apart(axes)]
        if not together:
            return Match(apart=True) if found else None
        together.sort(key=_preference)
        best, shapes = together[0], (target, golden)
        several = sum(axis.optional for axis in best) > 1 or any(axis.alone for axes in together for axis in axes)
        parts = [Part(_ranges(axes, shapes), _token_axis(axes)) for axes in (together if several else [best])]
        return Match(tuple({str(part.ranges): part for part in reversed(parts)}.values())[::-1])

    def _is_apart(self, axes: tuple[_Axis, ...]) -> bool:
        """Return whether both sides hold other tokens. A row per request without an axis of tokens is its last one."""
        tokens = [axis for axis in axes if axis.kind not in ("", ROW)]
        rows_alone = not tokens and any(axis.kind == ROW for axis in axes)
        return any(axis.apart for axis in tokens) or (rows_alone and self.target.stop != self.golden.stop)

    def _ways(self, target: Shape, golden: Shape) -> Iterator[tuple[_Axis, ...]]:
        """Yield every way in which the axes of both shapes fit."""
        if not target and not golden:
            yield ()
        if target and target[0] == 1:
            yield from ((_Axis(slice(0, 1), None), *rest) for rest in self._ways(target[1:], golden))
        if golden and golden[0] == 1:
            yield from ((_Axis(None, slice(0, 1)), *rest) for rest in self._ways(target, golden[1:]))
        if target and target[0] != 1:
            yield from ((_Axis(row, None, ROW), *rest) for row in _rows_of(self.target, target[0])
                        for rest in self._ways(target[1:], golden))  # fmt: skip
        if golden and golden[0] != 1:
            yield from ((_Axis(None, row, ROW), *rest) for row in _rows_of(self.golden, golden[0])
                        for rest in self._ways(target, golden[1:]))  # fmt: skip
        if target and golden:
            heads = list(self._heads(target[0], golden[0]))
            if heads:
                yield from ((head, *rest) for rest in self._ways(target[1:], golden[1:]) for head in heads)

    def _heads(self, target: int, golden: int) -> Iterator[_Axis]:
        """Yield what axes of these lengths may have in common."""
        equal = target == golden
        for left in self.target.parts(target):
            for right in self.golden.parts(golden):
                if right.kind in _FITS[left.kind]:
                    yield self._common(left, right, equal)
        if equal:
            yield _Axis(slice(0, target), slice(0, golden))

    def _common(self, left: AxisPart, right: AxisPart, equal: bool) -> _Axis:
        if ROW in (left.kind, right.kind):  # which of its tokens they are, the other axes say
            target, golden = (slice(one.begin, one.begin + 1) for one in (left, right))
            return _Axis(target, golden, ROW, left.position, optional=equal)
        first = max(left.position, right.position)
        stop = min(left.position + left.tokens, right.position + right.tokens)
        target, golden = (
            slice(one.begin + first - one.position, one.begin + stop - one.position) for one in (left, right)
        )
        alone = ALONE in (left.kind, right.kind)
        return _Axis(target, golden, left.kind, first, apart=first >= stop, optional=equal, alone=alone)


def _rows_of(rows: RequestRows, length: int) -> Iterator[slice]:
    """Yield where the request is on an axis with a row per request."""
    yield from (slice(part.begin, part.begin + 1) for part in rows.parts(length) if part.kind == ROW)


def _preference(axes: tuple[_Axis, ...]) -> tuple[int, str]:
    """Return what is smallest for the way that is taken first."""
    return -sum(bool(axis.kind) for axis in axes), "".join(_ORDER[axis.kind] for axis in axes)


def _ranges(axes: tuple[_Axis, ...], shapes: tuple[Shape, Shape]) -> RowRanges:
    """Return the index ranges of both sides; None for a tensor that stays whole."""
    sides: list[Ranges | None] = []
    for taken, shape in zip(([axis.target for axis in axes], [axis.golden for axis in axes]), shapes, strict=True):
        own = tuple(one for one in taken if one is not None)
        whole = all(one == slice(0, length) for one, length in zip(own, shape, strict=True))
        sides.append(None if whole else own)
    return sides[0], sides[1]


def _token_axis(axes: tuple[_Axis, ...]) -> TokenAxis | None:
    """Return the first axis of tokens of the part, else that of its context, counted without axes of length 1."""
    for kinds in (_ROWS, (CONTEXT,), (ROW,)):
        number = 0
        for axis in axes:
            taken = axis.target or axis.golden
            length = 0 if taken is None else taken.stop - taken.start
            if axis.kind in kinds:
                return TokenAxis(number if length != 1 else None, axis.position)
            number += length != 1
    return None
