"""What leaves a step: its losses, the gradients of its parameters, and the results of the outermost modules.

A run is right when every value that leaves it has a twin in the other run: a value as close as its computation allows.
Where all have one, what differs inside of the step is another way to compute the same: another kernel, layers that are
fused or split, a formula that is written otherwise, a module more or less. A value whose gradient a loss takes is shown
by the loss; other results of outermost modules leave the step by themselves, as all of them do without gradients.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msprobe.compare.parallel.by_name.joined_record import joined_record
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, EntryKey, is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import LARGEST, NORM
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, unit_roundoff
from msprobe.numerics.verdict import Judged, Measured, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import UNMOVED, distance, is_float, is_part, recorded_count, same_checksums

_EQUAL = 2e-5
"""How far a value that leaves a step may be apart in float32, relative to its scale."""
_ROUNDINGS = 4.0
"""The same in units of round-off of a coarser dtype."""
_MUCH_CLOSER = 0.1
"""How far what leaves the step may be apart, relative to a difference inside."""
_NO_PART = 1e-5
"""Share of the norm of all gradients below which one is nothing but rounding."""
_MOST_CONDITIONED = 16.0
_Raw = Mapping[str, Any]


class Sink(NamedTuple):
    """A value that leaves a step: the entry that makes it, its row and its record."""

    entry: int
    row: int
    raw: _Raw


_Mark = tuple[Any, ...]
_BySize = dict[float, list[tuple[_Mark, _Raw]]]
_Gradients = dict[tuple[str, str], list[Sink]]


class Sinks:
    """The values that leave a step, on both sides, and how far each is from its twin.

    Args:
        table: both dumps.
        measured: the differences of all rows.
        judged: the verdicts of all rows.
        merged: whether a side stands for several ranks.
    """

    def __init__(self, table: LeafTable, measured: Measured, judged: Judged, *, merged: bool = False) -> None:
        self.comparable = not (merged or table.across or table.model_file is not None)
        self._table, self._kind, self._worst = table, judged.kind, measured.worst
        self._coarsest = float(measured.passed.max(initial=0.0))
        self._apart: dict[tuple[int, int], float] = {}

    @cached_property
    def apart(self) -> float:
        """The largest distance of a sink to its twin, relative to its scale; infinite where one has none, where
        nothing leaves the step, or where gradients that leave it are not recorded."""
        parts = []
        if any(self._gradients) or self._goes_back:
            if not all(self._gradients):
                return math.inf
            parts += [self._losses_apart, self._gradients_apart]
        results = [self._result_apart(side, sink) for side in (0, 1) for sink in self._results[side]]
        return max([*parts, *results], default=math.inf)

    @cached_property
    def agree(self) -> bool:
        """Whether every value that leaves the step has a twin. Two frameworks, a model file and merged ranks record
        other calls and results, so that theirs say nothing."""
        return self.comparable and math.isfinite(self.apart)

    @property
    def losses_agree(self) -> bool:
        """Whether all losses and results have a twin, and gradients of them are what has none."""
        return all(self._gradients) and not any(True for side in (0, 1) for _ in self.wrong(side))

    def make_up_for(self, entry: int) -> bool:
        """Return whether what leaves the step agrees much better than the values of an entry do."""
        rows = [row for row in self._table.rows_of(entry) if self._kind[row] > RowKind.UNCHECKED]
        inside = (float(self._worst[row]) if self._kind[row] == RowKind.VALUE else math.inf for row in rows)
        return self.apart <= _MUCH_CLOSER * max(inside, default=0.0)

    def allowed(self, *raws: _Raw) -> float:
        """Return how far sinks with these records may be apart, relative to their scale."""
        roundoff = max(self._coarsest, *(unit_roundoff(str(raw.get("dtype"))) for raw in raws))
        return max(_EQUAL, _ROUNDINGS * roundoff)

    def wrong(self, side: int) -> Iterator[tuple[int, _Raw]]:
        """Yield the losses and results of a side that have no twin, each with the entry that makes it."""
        if any(self._gradients) and not math.isfinite(self._losses_apart):
            yield from (
                (sink.entry, sink.raw) for sink in self._loss_sinks[side] if not self.has_twin(side, sink.row, sink.raw)
            )
        for sink in self._results[side]:
            if not math.isfinite(self._result_apart(side, sink)):
                yield sink.entry, sink.raw

    def has_twin(self, side: int, row: int, raw: _Raw) -> bool:
        """Return whether the other side has a value: in its row, or anywhere."""
        return math.isfinite(self._value_apart(side, row, raw))

    def _value_apart(self, side: int, row: int, raw: _Raw) -> float:
        """Return how far a value is from its twin. What its row has on the other side, and is judged to be another
        value, is no twin where it is used again; what was put together has no order, and no layout."""
        if (side, row) not in self._apart:
            self._apart[side, row] = self._find_apart(side, row, raw)
        return self._apart[side, row]

    def _find_apart(self, side: int, row: int, raw: _Raw) -> float:
        if math.isfinite(apart := self._row_apart(row)):
            return apart
        leaf = (self._table.golden, self._table.target)[side][row]
        joined = row in self._table.together
        partner = None if joined or leaf is None or not is_tensor(leaf.raw) else leaf.raw
        return self._twin_apart(side, raw, partner)

    def row_has_twins(self, row: int) -> bool:
        """Return whether the values of a row have twins, on both sides as far as they have one."""
        leaves = self._table.target[row], self._table.golden[row]
        tensors = ((side, leaf.raw) for side, leaf in enumerate(leaves) if leaf is not None and is_tensor(leaf.raw))
        return all(self.has_twin(side, row, raw) for side, raw in tensors)

    def key(self, entry: int) -> EntryKey:
        """Return the parsed name of an entry."""
        return self._table.keys[entry]

    # The leaves of a side

    def leaves(self, side: int, entry: int, slot: str) -> Iterator[tuple[int, _Raw]]:
        """Yield the tensors that a side has in a slot of an entry, with their rows."""
        leaves = (self._table.target, self._table.golden)[side]
        for row in self._table.rows_of(entry):
            leaf = leaves[row]
            if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw):
                yield row, leaf.raw

    def forward(self, side: int) -> Iterator[int]:
        """Yield the forward calls of a side, but those for parameters and what checkpointing repeats."""
        for entry, key in enumerate(self._table.keys):
            if self._table.entries[entry][side] is None or key.phase != Phase.FORWARD.value or key.recompute:
                continue
            if key.parent not in OF_PARAMETERS:
                yield entry

    # Twins

    @cached_property
    def _values(self) -> tuple[_BySize, _BySize]:
        """By side all recorded tensors with their marks, by number of elements, in the order of their norms."""
        sides: tuple[_BySize, _BySize] = ({}, {})
        for values, leaves in zip(sides, (self._table.target, self._table.golden), strict=True):
            seen = set()
            for leaf in leaves:
                if leaf is None or not is_tensor(leaf.raw):
                    continue
                mark = _mark(leaf.raw)
                if (mark, leaf.raw.get(KEY)) not in seen:
                    seen.add((mark, leaf.raw.get(KEY)))
                    values.setdefault(recorded_count(leaf.raw), []).append((mark, leaf.raw))
            for own in values.values():
                own.sort(key=_norm_of_entry)
        return sides

    @cached_property
    def _most_allowed(self) -> float:
        """How far two values of any dtype of both sides may be apart."""
        dtypes = {str(raw.get("dtype")) for values in self._values for own in values.values() for _, raw in own}
        return max(_EQUAL, _ROUNDINGS * max(self._coarsest, *map(unit_roundoff, dtypes)))

    def _near(self, side: int, raw: _Raw) -> list[tuple[_Mark, _Raw]]:
        """Return the values of a side with as many elements, and a norm that a twin may have."""
        values, norm = self._values[side].get(recorded_count(raw), []), _norm(raw)
        if raw.get("md5") is not None or not math.isfinite(norm):
            return values
        reach = 1.0 - min(self._most_allowed, 0.99)
        first = bisect_left(values, norm * reach, key=_norm_of_entry)
        return values[first : bisect_right(values, norm / reach, key=_norm_of_entry)]

    def _twin_apart(self, side: int, raw: _Raw, without: _Raw | None = None) -> float:
        """Return how far the nearest value of the other side is, infinite where none is near enough to be a twin: no
        farther than is allowed, and in the same order where both have one shape. ``without`` is no twin."""
        nearest, unwanted = math.inf, None if without is None else _mark(without)
        for mark, other in self._near(1 - side, raw):
            if without is None or mark != unwanted or _has_other_order(other, without):
                nearest = min(nearest, self._distance(raw, other))
        return nearest

    def _distance(self, raw: _Raw, other: _Raw, factor: float = 1.0) -> float:
        """Return how far two values are apart, infinite where that is more than ``factor`` times what is allowed."""
        by_checksum = same_checksums(raw, other)
        if by_checksum is not None:
            return 0.0 if by_checksum else math.inf
        apart = _apart(raw, other) if recorded_count(raw) == recorded_count(other) else math.inf
        return apart if apart <= factor * self.allowed(raw, other) else math.inf

    def _row_apart(self, row: int) -> float:
        """Return how far the two values of a row are apart, infinite where they differ or one side lacks it."""
        both = self._table.target[row] is not None and self._table.golden[row] is not None
        return float(self._worst[row]) if both and self._kind[row] <= RowKind.UNCHECKED else math.inf

    # Results

    @cached_property
    def _results(self) -> tuple[list[Sink], list[Sink]]:
        """By side the results of the outermost modules that no loss shows."""
        target, golden = (list(self._results_of(side)) for side in (0, 1))
        return target, golden

    def _results_of(self, side: int) -> Iterator[Sink]:
        shown = self._shown_by_losses(side) if self._gradients[side] else frozenset()
        for entry in filter(self._is_outermost, self.forward(side)):
            floats = ((row, raw) for row, raw in self.leaves(side, entry, OUTPUT) if is_float(raw))
            whole = ((row, raw) for row, raw in floats if row not in self._table.in_pieces)
            yield from (Sink(entry, row, raw) for row, raw in whole if _mark(raw) not in shown)

    def _result_apart(self, side: int, sink: Sink) -> float:
        """Return how far a result is from its twin. One without counterpart of its shape may be a part, or a batch, of
        what the other side computes: then all such results of the module are compared as a whole, or what is made of
        it. Of several results of a call one that nothing gets leaves the step no more than a local variable does."""
        apart = self._alone_or_whole_apart(side, sink)
        if math.isfinite(apart) or self._has_counterpart(sink.row):
            return apart
        if any(True for _ in self._users(side, sink.raw, sink.entry)):
            return self._uses_apart(side, sink.entry, sink.raw)
        others = (other for other in self._results[side] if other.entry == sink.entry and other.row != sink.row)
        return min((self._alone_or_whole_apart(side, other) for other in others), default=math.inf)

    def _alone_or_whole_apart(self, side: int, sink: Sink) -> float:
        apart = self._value_apart(side, sink.row, sink.raw)
        if math.isfinite(apart) or self._has_counterpart(sink.row):
            return apart
        return self._wholes_apart[self._place(side, sink)]

    def _has_counterpart(self, row: int) -> bool:
        """Return whether both sides have a value of one shape in a row."""
        return None not in (self._table.target[row], self._table.golden[row]) and self._kind[row] != RowKind.SHAPE

    def _place(self, side: int, sink: Sink) -> tuple[str, str]:
        leaf = (self._table.target, self._table.golden)[side][sink.row]
        return self.key(sink.entry).stem, "" if leaf is None else leaf.suffix

    @cached_property
    def _wholes_apart(self) -> dict[tuple[str, str], float]:
        """By outermost module and place how far all of its results there are apart as a whole."""
        wholes: dict[tuple[str, str], tuple[list[_Raw], list[_Raw]]] = {}
        for side in (0, 1):
            for sink in self._results[side]:
                wholes.setdefault(self._place(side, sink), ([], []))[side].append(sink.raw)
        return {place: self._joined_apart(*sides) for place, sides in wholes.items()}

    def _joined_apart(self, *sides: Sequence[_Raw]) -> float:
        if not all(sides):
            return math.inf
        sizes = [[int(element_count(raw)) for raw in side] for side in sides]
        if sum(sizes[0]) != sum(sizes[1]):
            return math.inf
        left, right = (
            joined_record(list(map(dict, side)), size, [sum(size)]) for side, size in zip(sides, sizes, strict=True)
        )
        return self._distance(left, right)

    def uses_agree(self, row: int) -> bool:
        """Return whether what is made of the values of a row has twins, on both sides as far as they have one."""
        leaves = enumerate((self._table.target[row], self._table.golden[row]))
        tensors = ((side, leaf.raw) for side, leaf in leaves if leaf is not None and is_tensor(leaf.raw))
        return all(math.isfinite(self._uses_apart(side, self._entry_of(row), raw)) for side, raw in tensors)

    def _uses_apart(self, side: int, entry: int, raw: _Raw) -> float:
        """Return how far what is made of a value outside of all modules is from its twins, infinite where something has
        none, or nothing gets the value."""
        largest, waiting, seen = 0.0, [(entry, raw)], {_mark(raw)}
        while waiting:
            maker, raw = waiting.pop()
            users = self._users(side, raw, maker)
            results = itertools.chain.from_iterable(self.leaves(side, user, OUTPUT) for user in users)
            others = [(row, made) for row, made in results if _mark(made) != _mark(raw)]
            if not others:
                return math.inf
            for row, made in others:
                if row in self._table.in_pieces:
                    continue  # judged with the whole
                apart = self._value_apart(side, row, made)
                if math.isfinite(apart):
                    largest = max(largest, apart)
                elif (mark := _mark(made)) not in seen:
                    seen.add(mark)
                    waiting.append((self._entry_of(row), made))
        return largest

    def _entry_of(self, row: int) -> int:
        (entry,) = self._table.entries_of([row])
        return int(entry)

    def _users(self, side: int, raw: _Raw, after: int) -> Iterator[int]:
        """Yield the calls outside of all modules that get a value, or what may be a part of it."""
        for entry in self._outside[side]:
            if entry > after and any(self._holds(side, row, one, raw) for row, one in self.leaves(side, entry, INPUT)):
                yield entry

    def _holds(self, side: int, row: int, given: _Raw, raw: _Raw) -> bool:
        """Return whether what a call gets in a row is a value, a part of it, or was before it was put together."""
        joined = self._table.together.get(row)
        piece = joined.piece if joined is not None and joined.in_golden == bool(side) and joined.piece else given
        return _mark(raw) in (_mark(given), _mark(piece)) or self._is_part(side, piece, raw)

    def _is_part(self, side: int, raw: _Raw, whole: _Raw) -> bool:
        """Return whether a value that no recorded call makes may be a part of another one (a slice)."""
        return (
            is_float(raw)
            and element_count(raw) < element_count(whole)
            and _mark(raw) not in self._made[side]
            and is_part(raw, whole)
        )

    @cached_property
    def _made(self) -> tuple[frozenset[_Mark], frozenset[_Mark]]:
        """By side the results of forward calls."""
        target, golden = (
            frozenset(_mark(raw) for entry in self.forward(side) for _, raw in self.leaves(side, entry, OUTPUT))
            for side in (0, 1)
        )
        return target, golden

    @cached_property
    def _outside(self) -> tuple[list[int], list[int]]:
        """By side the calls outside of all modules, and of the outermost ones."""
        target, golden = ([entry for entry in self.forward(side) if not self.key(entry).parent] for side in (0, 1))
        return target, golden

    def _is_outermost(self, entry: int) -> bool:
        return is_module(self._table.keys[entry]) and not self._table.keys[entry].parent

    def _shown_by_losses(self, side: int) -> frozenset[_Mark]:
        """Return the results of calls that a backward pass reaches; of modules around them where no other call has
        them."""
        reached: dict[_Mark, bool] = {}
        for entry in self.forward(side):
            is_reached = self._backward_of(entry, side) is not None
            for mark in (_mark(raw) for _, raw in self.leaves(side, entry, OUTPUT)):
                if self._is_outermost(entry):
                    reached.setdefault(mark, is_reached)
                else:
                    reached[mark] = is_reached
        return frozenset(mark for mark, by_losses in reached.items() if by_losses)

    # Gradients

    @cached_property
    def _gradients(self) -> tuple[_Gradients, _Gradients]:
        """By side and parameter its gradients, one of each backward pass."""
        sides: tuple[_Gradients, _Gradients] = ({}, {})
        phase = Phase.PARAMETERS_GRAD.value
        for entry in (number for number, key in enumerate(self._table.keys) if key.phase == phase):
            for row, side in itertools.product(self._table.rows_of(entry), (0, 1)):
                leaf = (self._table.target, self._table.golden)[side][row]
                if leaf is not None and is_tensor(leaf.raw):
                    name = self._table.keys[entry].stem, leaf.suffix.rpartition(".")[2]
                    sides[side].setdefault(name, []).append(Sink(entry, row, leaf.raw))
        return sides

    @property
    def _goes_back(self) -> bool:
        """Whether a backward call is recorded."""
        return any(key.phase == Phase.BACKWARD.value for key in self._table.keys)

    @cached_property
    def _gradients_apart(self) -> float:
        largest = 0.0
        left: tuple[list[_Raw], list[_Raw]] = ([], [])
        for side, own in enumerate(self._gradients):
            for name, sinks in own.items():
                if all(_norm(sink.raw) <= _NO_PART * self._size for sink in sinks):
                    continue
                others = self._gradients[1 - side].get(name, [])
                apart = self._gradient_apart(side, sinks, others)
                if not math.isfinite(apart) and _shapes(sinks) == _shapes(others):
                    return math.inf  # the same parameter
                if math.isfinite(apart):
                    largest = max(largest, apart)
                else:
                    left[side].extend(sink.raw for sink in sinks)
        return max(largest, self._unions_apart(left))

    @cached_property
    def _size(self) -> float:
        """The norm of all gradients of a side together, the larger of both."""
        gradients = ([sink.raw for sinks in own.values() for sink in sinks] for own in self._gradients)
        return max(map(_norm_of_all, gradients))

    def _gradient_apart(self, side: int, sinks: Sequence[Sink], others: Sequence[Sink]) -> float:
        """Return how far the gradients of a parameter are from those of the other side, in all passes together."""
        rows, paired = [sink.row for sink in sinks], math.inf
        if rows == [sink.row for sink in others] and all(self._kind[row] <= RowKind.UNCHECKED for row in rows):
            paired = max(float(self._worst[row]) for row in rows)
        if paired <= self.allowed(*(sink.raw for sink in sinks)):
            return paired
        alone = max(self._nearest_gradient(side, sink) for sink in sinks)
        return min(paired, alone, self._sums_apart([sink.raw for sink in sinks], [sink.raw for sink in others]))

    def _nearest_gradient(self, side: int, sink: Sink) -> float:
        """Return how far the nearest gradient of a parameter of the other side is: what a hook makes of one is recorded
        beside it."""
        factor = self._conditioned(sink.raw)
        others = (other for sinks in self._gradients[1 - side].values() for other in sinks)
        rest = (other.raw for other in others if factor > 1.0 or other.row != sink.row)
        return min((self._distance(sink.raw, raw, factor) for raw in rest), default=math.inf)

    def _conditioned(self, raw: _Raw) -> float:
        """Return how much larger the rounding of a gradient is, relative to it, than that of one of usual size: the
        terms that are rounded are those of all gradients, also where they nearly cancel in one of them."""
        if self._coarsest <= FLOAT32_ROUNDOFF:
            return 1.0
        usual = self._size / math.sqrt(max(map(len, self._gradients)))
        return min(max(usual / max(_norm(raw), 1e-300), 1.0), _MOST_CONDITIONED)

    def _sums_apart(self, *sides: Sequence[_Raw]) -> float:
        """Return how far the sums of gradients are apart: mean and projection add up as tensors do."""
        if not all(sides) or len({str(raw.get("shape")) for side in sides for raw in side}) > 1:
            return math.inf
        size = max(sum(map(_norm, side)) for side in sides)
        root = math.sqrt(max(element_count(sides[0][0]), 1.0))
        parts = [
            abs(_sum(sides[0], name) - _sum(sides[1], name)) / max(scale, 1e-300)
            for name, scale in (("Mean", size / root), (KEY, size))
        ]
        near = all(part <= self.allowed(*sides[0], *sides[1]) for part in parts)  # none of them is missing
        return max(parts) if near else math.inf

    def _unions_apart(self, left: tuple[list[_Raw], list[_Raw]]) -> float:
        """Return how far what is left on both sides is apart as a whole: parameters that are fused or split hold the
        same elements, so as many of them, with one norm."""
        if not any(left):
            return 0.0
        counts = [sum(map(element_count, side)) for side in left]
        norms = list(map(_norm_of_all, left))
        if counts[0] != counts[1] or not max(norms) > 0.0:
            return math.inf
        apart = abs(norms[0] - norms[1]) / max(norms)
        return apart if apart <= self.allowed(*left[0], *left[1]) else math.inf

    # Losses

    @cached_property
    def _losses_apart(self) -> float:
        """How far the losses of both sides are apart: as sums, since they add up where the passes are others, or one by
        one. What turns a loss round (a minus) may leave no record; then its gradient is turned round too."""
        if not all(self._loss_sinks):
            return math.inf
        plain, turned = (
            [
                [factor * as_float(sink.raw.get(LARGEST.name)) for sink, factor in zip(sinks, factors, strict=True)]
                for sinks, factors in zip(self._loss_sinks, both, strict=True)
            ]
            for both in ([[1.0] * len(sinks) for sinks in self._loss_sinks], self._signs)
        )
        raws = [sink.raw for sinks in self._loss_sinks for sink in sinks]
        size = max(sum(map(abs, values)) for values in plain)
        apart = min(abs(math.fsum(one[0]) - math.fsum(one[1])) for one in (plain, turned)) / max(size, 1e-300)
        if apart <= self.allowed(*raws):
            return apart
        return max(self._twin_apart(side, sink.raw) for side in (0, 1) for sink in self._loss_sinks[side])

    @property
    def _signs(self) -> list[list[float]]:
        """By side the sign of the gradient with which the backward pass begins at each loss."""
        return [
            [math.copysign(1.0, next(self._gradients_of(side, sink.entry), 1.0)) for sink in self._loss_sinks[side]]
            for side in (0, 1)
        ]

    @cached_property
    def _loss_sinks(self) -> tuple[list[Sink], list[Sink]]:
        target, golden = (list(self._losses(side)) for side in (0, 1))
        return target, golden

    def _losses(self, side: int) -> Iterator[Sink]:
        """Yield the numbers of which gradients are computed: results with a gradient that no later call with a gradient
        gets. Where the gradient of some of them is 1 (or -1), these are meant; of a sum and its parts the sum, as what
        gets the others leaves no record (``stack``)."""
        numbers: dict[float, Sink] = {}
        around = {self._table.keys[entry].parent for entry in self.forward(side)}
        for entry in self.forward(side):
            if self._backward_of(entry, side) is None:
                continue
            for _, raw in self._scalars(side, entry, INPUT):
                numbers.pop(as_float(raw.get(LARGEST.name)), None)
            key = self._table.keys[entry]
            if not is_module(key) or key.stem not in around:
                for row, raw in self._scalars(side, entry, OUTPUT):
                    numbers[as_float(raw.get(LARGEST.name))] = Sink(entry, row, raw)
        begins = [sink for sink in numbers.values() if self._begins_with(side, sink.entry)]
        yield from _without_parts(begins) or numbers.values()

    def _scalars(self, side: int, entry: int, slot: str) -> Iterator[tuple[int, _Raw]]:
        return (found for found in self.leaves(side, entry, slot) if element_count(found[1]) == 1)

    def _backward_of(self, entry: int, side: int) -> int | None:
        name = self._table.entries[entry][side]
        return self._table.numbers_by_name[side].get(in_phase(str(name), Phase.BACKWARD.value))

    def _begins_with(self, side: int, entry: int) -> bool:
        """Return whether a backward pass begins with the gradient of a call: it is 1, or turned round."""
        return any(abs(gradient) == 1.0 for gradient in self._gradients_of(side, entry))

    def _gradients_of(self, side: int, entry: int) -> Iterator[float]:
        """Yield the numbers that the backward call of an entry gets."""
        backward = self._backward_of(entry, side)
        given = () if backward is None else self._scalars(side, backward, INPUT)
        return (as_float(raw.get(LARGEST.name)) for _, raw in given)


def _without_parts(losses: list[Sink]) -> list[Sink]:
    """Return the losses, or the one alone that is the sum of all others."""
    for number, loss in enumerate(losses if len(losses) > 2 else ()):
        others = [sink.raw for sink in (*losses[:number], *losses[number + 1 :])]
        apart = abs(as_float(loss.raw.get(LARGEST.name)) - _sum(others, LARGEST.name))
        if apart <= _EQUAL * sum(abs(as_float(other.get(LARGEST.name))) for other in others):
            return [loss]
    return losses


def _shapes(sinks: Sequence[Sink]) -> set[str]:
    return {str(sink.raw.get("shape")) for sink in sinks}


def _mark(raw: _Raw) -> _Mark:
    """Return what is equal of a value and its uses."""
    return recorded_count(raw), *(str(raw.get(name)) for name in (*UNMOVED, "md5"))


def _apart(raw: _Raw, other: _Raw) -> float:
    """Return how far two tensors are apart in what no view changes, and of one shape also in their order."""
    if not math.isfinite(_norm(raw)):
        return math.inf  # any two masks of infinity are alike
    apart = distance(raw, other, UNMOVED)
    if raw.get("shape") != other.get("shape"):
        return apart
    left, right = as_float(raw.get(KEY)), as_float(other.get(KEY))
    by_order = abs(left - right) / max(_norm(raw), _norm(other), 1e-300)
    return max(apart, by_order) if math.isfinite(by_order) else apart


def _has_other_order(raw: _Raw, other: _Raw) -> bool:
    """Return whether two tensors of the same elements and one shape have them in another order, as far as is known."""
    return raw.get("shape") == other.get("shape") and raw.get(KEY) != other.get(KEY)


def _norm(raw: _Raw) -> float:
    return as_float(raw.get(NORM.name))


def _norm_of_entry(entry: tuple[_Mark, _Raw]) -> float:
    """Return the norm of a value, infinity where none is recorded."""
    norm = _norm(entry[1])
    return math.inf if math.isnan(norm) else norm


def _norm_of_all(raws: Sequence[_Raw]) -> float:
    return math.sqrt(sum(_norm(raw) ** 2 for raw in raws))


def _sum(raws: Sequence[_Raw], name: str) -> float:
    return math.fsum(as_float(raw.get(name)) for raw in raws)
