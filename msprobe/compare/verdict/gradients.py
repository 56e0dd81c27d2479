"""The gradients of parameters that leave a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import is_module
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sides import Sides, Sink
from msprobe.compare.verdict.twins import Mark, Raw, Twins, mark_of, norm_of, norm_of_all, order_of, with_near_norm
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.numerics.verdict import Floats, Ints, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import is_complex, recorded_count
from msprobe.trace.values import signature_of

_NO_PART = 1e-5
"""Share of the norm of all gradients below which one is nothing but rounding; the unit round-off of a coarser dtype is
that share of one of usual size."""
_MOST_CONDITIONED = 16.0
_Passes = list[list[Raw]]
"""The gradients of several parameters, of each pass."""
_ByParameter = dict[tuple[str, str], list[Sink]]


class _Compared(NamedTuple):
    """The gradients of a parameter on one side, those of its name on the other one, and how far they are apart."""

    side: int
    sinks: list[Sink]
    others: list[Sink]
    apart: float


class Gradients:
    """The gradients of both sides, and how far they are apart.

    Args:
        table: both dumps.
        kind: the kinds of all rows.
        worst: the largest difference in each row.
        sides: the calls of both sides.
        twins: what is near enough.
    """

    def __init__(self, table: LeafTable, kind: Ints, worst: Floats, sides: Sides, twins: Twins) -> None:
        self._table, self._kind, self._worst, self._sides, self._twins = table, kind, worst, sides, twins

    @cached_property
    def by_parameter(self) -> tuple[_ByParameter, _ByParameter]:
        """By side and parameter its gradients, one of each backward pass; without names where none is known."""
        sides: tuple[_ByParameter, _ByParameter] = ({}, {})
        phase = Phase.PARAMETERS_GRAD.value
        for entry in (number for number, key in enumerate(self._table.keys) if key.phase == phase):
            for row, side in itertools.product(self._table.rows_of(entry), (0, 1)):
                leaf = (self._table.target, self._table.golden)[side][row]
                if leaf is not None and is_tensor(leaf.raw):
                    name = self._table.keys[entry].stem, leaf.suffix.rpartition(".")[2]
                    sides[side].setdefault(name, []).append(Sink(entry, row, leaf.raw))
        target, golden = (own or self._leaving(side, through_views=any(sides)) for side, own in enumerate(sides))
        return target, golden

    def _leaving(self, side: int, *, through_views: bool) -> _ByParameter:
        """Return the gradients that leave a side of which only functions are recorded, so that no parameter has a name:
        those that no backward call gets, of what no forward call makes; ``through_views`` none that passes it on."""
        phase = Phase.BACKWARD.value
        calls = [number for number, key in enumerate(self._table.keys) if key.phase == phase and not is_module(key)]
        given = self._marks(side, calls, INPUT, OUTPUT if through_views else "")
        made = self._marks(side, self._sides.forward(side), OUTPUT, INPUT if through_views else "")
        leaving: _ByParameter = {}
        for entry in calls:
            inputs = self._inputs_of_forward(side, entry)
            for row, raw in self._sides.leaves(side, entry, OUTPUT):
                of = inputs.get(self._position(side, row))
                is_made = of is not None and signature_of(of) is not None and mark_of(of) in made
                if mark_of(raw) not in given and not is_made:
                    leaving["", str(row)] = [Sink(entry, row, raw)]
        return leaving

    def _marks(self, side: int, calls: Iterable[int], slot: str, other: str) -> set[Mark]:
        """Return what calls have in a slot and not in another one."""
        found = set[Mark]()
        for entry in calls:
            own = [{mark_of(raw) for _, raw in self._sides.leaves(side, entry, one)} for one in (slot, other)]
            found |= own[0] - own[1]
        return found

    def elements(self, side: int) -> float:
        """Return how many elements the gradients of a side have, those of one pass counted."""
        return sum(element_count(sinks[0].raw) for sinks in self.by_parameter[side].values())

    def _inputs_of_forward(self, side: int, entry: int) -> dict[str, Raw]:
        """Return by position what the call gets of which an entry is the backward call."""
        name = in_phase(str(self._table.entries[entry][side]), Phase.FORWARD.value)
        number = self._table.numbers_by_name[side].get(name)
        rows = () if number is None else self._sides.leaves(side, number, INPUT)
        return {self._position(side, row): raw for row, raw in rows}

    def _position(self, side: int, row: int) -> str:
        leaf = (self._table.target, self._table.golden)[side][row]
        return "" if leaf is None else leaf.suffix.rpartition(".")[2]

    @cached_property
    def _compared(self) -> list[_Compared]:
        """The gradients of each parameter of both sides that are more than rounding, against those of its name."""
        found = []
        for side, own in self._known.items():
            for name, sinks in own.items():
                if self._is_more_than_rounding(sinks):
                    others = self.by_parameter[1 - side].get(name, [])
                    found.append(_Compared(side, sinks, others, self._gradient_apart(side, sinks, others)))
        return found

    @property
    def _known(self) -> dict[int, _ByParameter]:
        """By side its gradients, where they are known to be those of parameters or no side says that."""
        return {side: own for side, own in enumerate(self.by_parameter) if self.named[side] or not self.named[1 - side]}

    @cached_property
    def any_renamed_differs(self) -> bool:
        """Whether a parameter of the target has another gradient, in one shape, than the one that holds the same in the
        golden run, where none has its name."""
        target, golden = self.by_parameter
        for name in filter(self._values[0].__contains__, target.keys() - golden.keys()):
            like = [other for other, held in self._values[1].items() if held == self._values[0][name]]
            sinks, others = target[name], golden.get(like[0], []) if len(like) == 1 else []
            comparable = self._is_more_than_rounding(sinks) and _shapes(sinks) == _shapes(others)
            if comparable and math.isinf(self._gradient_apart(0, sinks, others)):
                return True
        return False

    def _is_more_than_rounding(self, sinks: Sequence[Sink]) -> bool:
        rounding = max(_NO_PART * self._size, self._twins.coarsest * self._usual)
        return any(norm_of(sink.raw) > rounding for sink in sinks)

    @cached_property
    def _values(self) -> list[dict[tuple[str, str], Mark]]:
        """By side what the parameters hold when the step begins, in which order, by their names."""
        return [{name: (*mark_of(raw), raw[KEY]) for name, raw in held.items()} for held in self._held]

    @cached_property
    def _held(self) -> list[dict[tuple[str, str], Raw]]:
        """By side the records of the parameters when the step begins, by their names."""
        sides: list[dict[tuple[str, str], Raw]] = [{}, {}]
        for side, entry in itertools.product((0, 1), range(len(self._table.keys))):
            key = self._sides.key(entry)
            if not is_module(key) or key.phase != Phase.FORWARD.value:
                continue
            for row, raw in self._sides.leaves(side, entry, PARAMETER):
                if signature_of(raw) is not None and KEY in raw:  # else their order is not known
                    sides[side].setdefault((key.stem, self._position(side, row)), raw)
        return sides

    @property
    def any_differs(self) -> bool:
        """Whether a parameter that both sides have by name, in one shape, has another gradient."""
        return self.have_names and self.any_pair_differs

    @cached_property
    def any_pair_differs(self) -> bool:
        """Whether the gradients of one parameter, or without names of one call, differ in one shape."""
        of_one_shape = (one for one in self._compared if _shapes(one.sinks) == _shapes(one.others))
        return not all(math.isfinite(one.apart) for one in of_one_shape)

    @property
    def have_names(self) -> bool:
        """Whether both sides know gradients by parameter, and not only what functions return in the backward pass."""
        return all(self.named)

    @cached_property
    def named(self) -> list[bool]:
        """By side whether it knows gradients by parameter; what leaves another one may be parts of them."""
        return [any(stem for stem, _ in names) for names in self.by_parameter]

    @cached_property
    def apart(self) -> float:
        """How far the gradients of both sides are apart: those of one parameter, or of one that has another name; what
        is left of both sides, fused or split, all together."""
        if self.any_differs:
            return math.inf
        largest = 0.0
        left: tuple[_Passes, _Passes] = ([], [])
        renamed: tuple[_Passes, _Passes] = ([], [])
        for side, sinks, others, apart in self._compared:
            passes = [sink.raw for sink in sinks]
            if not others:
                renamed[side].append(passes)
            if math.isfinite(apart):
                largest = max(largest, apart)
            else:
                left[side].append(passes)
        return max(largest, min(map(self._together_apart, (left, renamed)))) if any(left) else largest

    def _together_apart(self, sides: tuple[_Passes, _Passes]) -> float:
        """Return how far fused and split parameters are apart, all together: in norm and extremes, or by the sum of all
        elements where passes are added up."""
        raws = [list(itertools.chain.from_iterable(own)) for own in sides]
        if not all(raws):
            return math.inf
        apart = self._twins.unions_distance(*raws)
        sizes = [sum(element_count(passes[0]) for passes in own) for own in sides]
        if math.isfinite(apart) or sizes[0] != sizes[1] or len({len(passes) for own in sides for passes in own}) == 1:
            return apart
        sums = [math.fsum(as_float(raw.get("Mean")) * element_count(raw) for raw in own) for own in raws]
        apart = abs(sums[0] - sums[1]) / max(*(math.fsum(map(norm_of, own)) for own in raws), 1e-300)
        return apart if apart <= self._twins.allowed(*raws[0], *raws[1]) else math.inf

    @cached_property
    def _size(self) -> float:
        """The norm of all gradients of a side together, the larger of both."""
        gradients = ([sink.raw for sinks in own.values() for sink in sinks] for own in self._known.values())
        return max(map(norm_of_all, gradients))

    def _gradient_apart(self, side: int, sinks: Sequence[Sink], others: Sequence[Sink]) -> float:
        """Return how far the gradients of a parameter are from those of the other side, in all passes together."""
        rows, paired = [sink.row for sink in sinks], math.inf
        if rows == [sink.row for sink in others] and all(self._kind[row] <= RowKind.UNCHECKED for row in rows):
            paired = max(float(self._worst[row]) for row in rows)
        if paired <= self._twins.allowed(*(sink.raw for sink in sinks)):
            return paired
        alone = max(min(self._nearest_gradient(side, one), self._anywhere(side, one, others)) for one in sinks)
        passes = [sink.raw for sink in sinks]
        return min(paired, alone, self._sums_apart(passes, [sink.raw for sink in others]))

    def _nearest_gradient(self, side: int, sink: Sink) -> float:
        """Return how far the nearest gradient of a parameter of the other side is: what a hook makes of one is recorded
        beside it."""
        factor = self._conditioned(sink.raw)
        others = self._by_size[1 - side].get(recorded_count(sink.raw), [])
        near = with_near_norm(others, sink.raw, _order_of_sink, factor * self._twins.most_allowed)
        rest = [other.raw for other in near if factor > 1.0 or other.row != sink.row]
        name = self._table.keys[sink.entry].stem, self._position(side, sink.row)
        # a function may get a transposed parameter, and a program may keep its rows in another order
        in_order = self.named[side] == self.named[1 - side] and not self._is_reordered(name)
        apart = (self._twins.distance(sink.raw, raw, factor, in_order=in_order, summed=True) for raw in rest)
        return min(apart, default=math.inf)

    def _is_reordered(self, name: tuple[str, str]) -> bool:
        """Return whether both sides begin the step with the same elements of a parameter in another order."""
        own, other = (values.get(name) for values in self._held)
        if own is None or other is None:
            return False
        return math.isinf(self._twins.distance(own, other)) and self._twins.hold_the_same(own, other)

    @cached_property
    def _by_size(self) -> list[dict[float, list[Sink]]]:
        """By side the gradients by number of elements, in the order of their norms."""
        sides: list[dict[float, list[Sink]]] = [{}, {}]
        for found, own in zip(sides, self.by_parameter, strict=True):
            for sink in sorted((sink for sinks in own.values() for sink in sinks), key=_order_of_sink):
                found.setdefault(recorded_count(sink.raw), []).append(sink)
        return sides

    def _anywhere(self, side: int, sink: Sink, others: Sequence[Sink]) -> float:
        """Return how far the nearest value of the other side is where it records no gradient of this parameter: it may
        call a function with it, and not the module that has it; then the call returns the gradient."""
        return math.inf if others else self._twins.apart(side, sink.raw)

    def _conditioned(self, raw: Raw) -> float:
        """Return how much larger the rounding of a gradient is, relative to it, than that of one of usual size: the
        terms that are rounded are those of all gradients, also where they nearly cancel in one of them."""
        return min(max(self._usual / max(norm_of(raw), 1e-300), 1.0), _MOST_CONDITIONED)

    @cached_property
    def _usual(self) -> float:
        """The norm of a gradient of usual size."""
        return self._size / math.sqrt(max(map(len, self._known.values())))

    def _sums_apart(self, *sides: Sequence[Raw]) -> float:
        """Return how far the sums of gradients are apart: mean and projection add up as tensors do."""
        raws = [raw for side in sides for raw in side]
        if not all(sides) or len({str(raw.get("shape")) for raw in raws}) > 1 or any(map(is_complex, raws)):
            return math.inf  # of complex numbers the magnitudes are recorded, which do not add up
        size = max(sum(map(norm_of, side)) for side in sides)
        root = math.sqrt(max(element_count(sides[0][0]), 1.0))
        parts = [
            abs(_sum(sides[0], name) - _sum(sides[1], name)) / max(scale, 1e-300)
            for name, scale in (("Mean", size / root), (KEY, size))
        ]
        near = all(part <= self._twins.allowed(*sides[0], *sides[1]) for part in parts)  # none of them is missing
        return max(parts) if near else math.inf


def _order_of_sink(sink: Sink) -> float:
    return order_of(sink.raw)


def _shapes(sinks: Sequence[Sink]) -> set[str]:
    return {str(sink.raw.get("shape")) for sink in sinks}


def _sum(raws: Sequence[Raw], name: str) -> float:
    return math.fsum(as_float(raw.get(name)) for raw in raws)
