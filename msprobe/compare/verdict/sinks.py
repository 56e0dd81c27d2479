"""What leaves a step: its losses, the gradients of its parameters, and the results of the outermost modules.

A run is right when every value that leaves it has a twin in the other run: a value as close as its computation allows.
Where all have one, what differs inside of the step is another way to compute the same: another kernel, layers that are
fused or split, a formula that is written otherwise, a module more or less. A value whose gradient a loss takes is shown
by the loss; other results of outermost modules leave the step by themselves, as all of them do without gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import is_module
from msprobe.compare.table.precisions import coarser_precision
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.gradients import Gradients
from msprobe.compare.verdict.losses import Losses
from msprobe.compare.verdict.reads import Read, Reads
from msprobe.compare.verdict.sides import Sides, Sink, Uses
from msprobe.compare.verdict.twins import Mark, Raw, Twins, mark_of
from msprobe.compare.verdict.updates import Updates
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.core.tensors.statistics import LARGEST
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF
from msprobe.numerics.verdict import Judged, Measured, RowKind
from msprobe.trace.leaves import as_float, is_shape
from msprobe.trace.likeness import is_float
from msprobe.trace.values import signature_of

MUCH_CLOSER = 0.1
"""How far what leaves the step may be apart, relative to a difference inside."""
_OTHER_ROUNDING = 2.0
"""How many tolerances a row may be apart beside other code."""
_Place = tuple[str, str]
"""A function or module, and the place of one of its results."""


class Sinks:
    """The values that leave a step, on both sides, and how far each is from its twin.

    Args:
        table: both dumps as a table.
        measured: the differences of all rows.
        judged: the verdicts of all rows.
        dumps: both dumps, target first.
        next_agrees: returns whether the next step computes the same forward; None where that is not known.
    """

    def __init__(
        self,
        table: LeafTable,
        measured: Measured,
        judged: Judged,
        dumps: Sequence[Dump],
        next_agrees: Callable[[], bool] | None = None,
    ) -> None:
        of_files = ["model_file" in dump.header for dump in dumps]
        self.may_agree = not (dumps[0].merged or of_files.count(True) == 1)
        self.comparable = self.may_agree and not table.across
        self._table, self._kind, self._worst = table, judged.kind, measured.worst
        self._by_reruns = bool(judged.by_reruns.size)
        self._tolerance, self._two_precisions = judged.tolerance, bool(measured.other_formats.any())
        # rows tell of two precisions where pairs of calls have them, which few do in other code
        self.coarsest = max(float(measured.passed.max(initial=0.0)), coarser_precision(table))
        target, golden = (_tensors(leaves) for leaves in (table.target, table.golden))
        folders = [dump.tensor_folder for dump in dumps]
        self.twins, self.sides = Twins((target, golden), self.coarsest, folders), Sides(table)
        self._losses = Losses(self.sides, self.twins, table.gradient_factor)
        self._gradients = Gradients(table, self._kind, self._worst, self.sides, self.twins)
        self._dumps, self._reads = dumps, Reads(dumps, self.coarsest)
        self._next_agrees = next_agrees or (lambda: False)
        self._apart: dict[tuple[int, int], float] = {}
        self._wholes_apart: dict[tuple[int, _Place], float] = {}

    @cached_property
    def apart(self) -> float:
        """The largest distance of a sink to its twin, relative to its scale; infinite where one has none, where
        nothing leaves the step, or where gradients that leave it are not recorded. Where nothing else does, what the
        programs read leaves it."""
        return largest if (largest := _largest(self._parts_apart())) >= 0.0 else self._reads.apart

    @cached_property
    def ends_agree(self) -> bool:
        """Whether functions alone are recorded, and what no later call gets is the same in one shape."""
        if self._table.alone or any(is_module(key) for key in self._table.keys) or self.sides.go_back:
            return False
        results = (
            (side, one, row, raw)
            for side in (0, 1)
            for one in self.sides.forward(side)
            for row, raw in self.sides.leaves(side, one, OUTPUT)
        )
        ends = [row for side, one, row, raw in results if not any(True for _ in self._uses[side].of(raw, one))]
        return bool(ends) and all(math.isfinite(self._row_apart(row)) for row in ends)

    def _parts_apart(self) -> Iterator[float]:
        """Yield how far the sinks of each kind are apart."""
        if any(self._gradients.by_parameter) or self.sides.go_back:
            if not any(self._gradients.by_parameter):
                yield math.inf
            yield self._losses_apart
            yield self._gradients_apart
        yield from self._results_apart()

    @property
    def _losses_apart(self) -> float:
        """How far the losses are apart. Where numbers are taken for losses that are none (those of micro-batches, a
        gradient that is handed on, a loss that is scaled), all gradients and what the programs read say more. What
        reruns show to be normal, rows know."""
        apart = self._losses.apart
        if not math.isfinite(apart) and self._by_reruns and all(self._losses.sinks):
            apart = max(self._row_apart(sink.row) for sinks in self._losses.sinks for sink in sinks)
        others = not math.isfinite(apart) and self._gradients.have_names
        return self._reads.apart if others and self._gradients_are_shown else apart

    @property
    def _gradients_apart(self) -> float:
        """How far the gradients are apart. Where no parameter has a name, what the optimizers leave shows them too."""
        apart = self._gradients.apart
        if not math.isfinite(apart) and self._gradients_are_shown:
            return self._losses_apart
        if not math.isfinite(apart) and self._optimizers_show_gradients:
            return self._losses.apart
        return apart

    @cached_property
    def _optimizers_show_gradients(self) -> bool:
        if self._gradients.have_names or self._gradient_differs or not self.updates.leave_the_same:
            return False
        gradients = min(filter(None, map(self._gradients.elements, (0, 1))), default=math.inf)  # of each use, or none
        return all(self.updates.elements(side) >= gradients for side in (0, 1))

    @cached_property
    def _gradients_are_shown(self) -> bool:
        """Whether the gradients agree. Those of other parameters (a product of two matrices, a norm and a direction)
        have no like in the other run: the next step shows what they have done. Without names, no gradient is known to
        agree, and losses in 16 bits do not show what one update does."""
        if math.isfinite(self._gradients.apart):
            return True
        shows = self._gradients.have_names or self.coarsest <= FLOAT32_ROUNDOFF
        return shows and not self._gradient_differs and self._next_agrees()

    @property
    def _gradient_differs(self) -> bool:
        """Whether a gradient has a like that differs: by the name of its parameter, else by its call, where both sides
        have as many calls with gradients, and the same code."""
        target, golden = map(len, self._gradients.by_parameter)
        by_call = target == golden and not self._gradients.have_names and not self.are_of_other_code
        return self._gradients.any_differs or (by_call and self._gradients.any_pair_differs)

    def _results_apart(self) -> Iterator[float]:
        return (self._result_apart(side, sink) for side in (0, 1) for sink in self._results[side])

    @cached_property
    def forward_agrees(self) -> bool:
        """Whether all results and the losses, or what the programs read, have twins: the step began with the same.
        Without modules the losses have to show it."""
        shown = math.isfinite(self._losses.apart) or (self._gradients.have_names and math.isfinite(self._reads.apart))
        if not shown or not self.comparable:
            return False
        return _largest(self._results_apart()) < math.inf

    @cached_property
    def agree(self) -> bool:
        """Whether every value that leaves the step has a twin, and the programs read the same in the end. A model file
        and merged ranks record other calls and results, so that theirs say nothing; of two frameworks nothing where
        they are others."""
        return self.may_agree and math.isfinite(self.apart) and not self.reads_are_others

    @cached_property
    def reads_are_others(self) -> bool:
        """Whether the programs read other numbers."""
        entries = range(len(self._table.keys))  # also those of clipping
        raws = ([raw for one in entries for _, raw in self.sides.scalars(side, one, OUTPUT)] for side in (0, 1))
        results = [[as_float(raw.get(LARGEST.name)) for raw in own] for own in raws]
        return self._reads.are_others(self._known_losses, results)

    @cached_property
    def _known_losses(self) -> list[float]:
        """The losses of both sides where they agree."""
        sinks = max(self._losses.sinks, key=len) if math.isfinite(self._losses.apart) else []
        return [as_float(sink.raw.get(LARGEST.name)) for sink in sinks]

    @cached_property
    def other_reads(self) -> tuple[list[Read], list[Read]]:
        """By side what the programs read that is not the same."""
        return self._reads.others(self._known_losses)

    @property
    def are_others(self) -> bool:
        """Whether the losses of both sides are others; without losses, the numbers that both programs read; where no
        parameter has a name, also the gradients that leave, and the parameters that their updates leave."""
        if not self.comparable or not (all(self._losses.sinks) and self._gradients.have_names):
            unnamed = not self._table.loose and all(self._gradients.by_parameter) and not any(self._gradients.named)
            others = unnamed and (not math.isfinite(self._gradients_apart) or self.updates.leave_others)
            return self.comparable and (others or self.reads_are_others)
        losses = (as_float(sink.raw.get(LARGEST.name)) for sinks in self._losses.sinks for sink in sinks)
        if not all(map(math.isfinite, losses)):
            return False
        if math.isfinite(self._losses_apart):
            exact = self.coarsest <= FLOAT32_ROUNDOFF  # in 16 bits a gradient that nearly cancels is another one
            renamed = exact and self._gradients.any_renamed_differs and not self._next_agrees()
            return renamed or self.reads_are_others
        return self.reads_are_others or not self._gradients_are_shown

    @cached_property
    def are_of_other_code(self) -> bool:
        """Whether the programs share less than half of their calls, or of those that make no updates, and each has
        calls of its own: else calls are left out."""
        calls = [{*self.sides.innermost(side)} for side in (0, 1)]
        return are_of_other_code(*calls) or are_of_other_code(*(own - self.updates.calls for own in calls))

    @cached_property
    def updates(self) -> Updates:
        """What the optimizers leave."""
        others = self._gradients.apart > self.twins.most_allowed
        return Updates(self._table, self.sides, self.twins, self._next_agrees, of_others=others)

    @property
    def losses_agree(self) -> bool:
        """Whether all losses and results have a twin, and gradients of them are what has none."""
        return all(self._gradients.by_parameter) and not any(True for side in (0, 1) for _ in self.wrong(side))

    def make_up_for(self, entry: int) -> bool:
        """Return whether what leaves the step agrees much better than the values of an entry do, or whether these are
        near their tolerance, beside other code, which rounds otherwise. Gradients on the way there are nothing but
        parts of those that leave: how much of them is rounding, those show."""
        rows = [row for row in self._table.rows_of(entry) if self._kind[row] > RowKind.UNCHECKED]
        is_gradient = self._table.keys[entry].phase == Phase.BACKWARD.value
        may_be_near = self._two_precisions or entry not in self.updates.calls
        near = is_gradient or (may_be_near and all(map(self.is_at_tolerance, rows)))
        if self._table.alone and near:
            return True
        inside = (float(self._worst[row]) if self._kind[row] == RowKind.VALUE else math.inf for row in rows)
        return self.apart <= MUCH_CLOSER * max(inside, default=0.0)

    def is_at_tolerance(self, row: int) -> bool:
        """Return whether a row differs by no more than other code may round otherwise."""
        if self._kind[row] != RowKind.VALUE:
            return False
        # a weight in bytes is off by the same for all rows of a batch, which no tolerance of a call knows
        coarser = self.twins.allowed(*self._table.tensors(row)) if self._two_precisions else 0.0
        return bool(self._worst[row] <= max(coarser, _OTHER_ROUNDING * self._tolerance[row]))

    def wrong(self, side: int) -> Iterator[tuple[int, Raw]]:
        """Yield the losses and results of a side that have no twin, each with the entry that makes it."""
        if any(self._gradients.by_parameter) and not math.isfinite(self._losses_apart):
            yield from (
                (sink.entry, sink.raw)
                for sink in self._losses.sinks[side]
                if not self.has_twin(side, sink.row, sink.raw)
            )
        for sink in self._results[side]:
            if not math.isfinite(self._result_apart(side, sink)):
                yield sink.entry, sink.raw

    def has_twin(self, side: int, row: int, raw: Raw) -> bool:
        """Return whether the other side has a value: in its row, or anywhere."""
        return math.isfinite(self._value_apart(side, row, raw))

    def _value_apart(self, side: int, row: int, raw: Raw) -> float:
        """Return how far a value is from its twin. What its row has on the other side, and is judged to be another
        value, is no twin where it is used again; what was put together has no order, and no layout."""
        if (side, row) not in self._apart:
            self._apart[side, row] = self._find_apart(side, row, raw)
        return self._apart[side, row]

    def _find_apart(self, side: int, row: int, raw: Raw) -> float:
        if math.isfinite(apart := self._row_apart(row)):
            return apart
        if any(sink.row == row for sink in self._losses.sinks[side]) and math.isfinite(self._losses.apart):
            return self._losses.apart
        leaf = (self._table.golden, self._table.target)[side][row]
        joined = row in self._table.together
        partner = None if joined or leaf is None or not is_tensor(leaf.raw) else leaf.raw
        apart = self.twins.apart(side, raw, partner)
        if math.isfinite(apart) or self._has_counterpart(row):
            return apart
        return self.twins.rows.apart(side, raw)

    def has_like_gradient(self, side: int, raw: Raw) -> bool:
        """Return whether the other side has a gradient of a parameter among its own."""
        others = itertools.chain.from_iterable(self._gradients.by_parameter[1 - side].values())
        return any(math.isfinite(self.twins.distance(raw, other.raw)) for other in others)

    def are_shown_by_losses(self, row: int) -> bool:
        """Return whether losses are made of the values of a row, or gradients go to them."""
        return all(raw.get("requires_grad") or mark_of(raw) in self._shown[side] for side, raw in self._tensors(row))

    def row_has_twins(self, row: int) -> bool:
        """Return whether the values of a row have twins, on both sides as far as they have one."""
        return all(self.has_twin(side, row, raw) for side, raw in self._tensors(row))

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
        shown = self._shown[side]
        for entry in filter(self._is_outermost, self.sides.forward(side)):
            floats = ((row, raw) for row, raw in self.sides.leaves(side, entry, OUTPUT) if is_float(raw))
            yield from (Sink(entry, row, raw) for row, raw in floats if mark_of(raw) not in shown)

    def _result_apart(self, side: int, sink: Sink) -> float:
        """Return how far a result is from its twin. One without counterpart of its shape may be a part, or a batch, of
        what the other side computes: then all such results of the module are compared as a whole, or what is made of
        it, or what the program reads in the end. Of one that calls get in slices alone, these are compared: what a
        decoder returns for padding is for nobody. Of several results of a call one that nothing gets leaves the step no
        more than a local variable does."""
        apart = self._alone_or_whole_apart(side, sink)
        if math.isfinite(apart):
            return apart
        uses = self._uses[side]
        others = [Sink(sink.entry, *own) for own in self.sides.leaves(side, sink.entry, OUTPUT) if own[0] != sink.row]
        if not uses.of_whole(sink.raw):
            slices = uses.slices_of(sink.raw, sink.entry)
            if slices and self._has_counterpart(sink.row):
                return max(self.twins.apart(side, one) for one in slices)
            if not slices and any(mark_of(other.raw) in self._shown[side] for other in others):
                return 0.0
        if self._has_counterpart(sink.row):
            return math.inf
        if math.isfinite(self._reads.apart):
            return self._reads.apart
        if self._has_rows(side, sink.row, sink.raw):
            return 0.0
        if any(True for _ in uses.of(sink.raw, sink.entry)):
            return self._uses_apart(side, sink.entry, sink.raw)
        return min((self._alone_or_whole_apart(side, other) for other in others), default=math.inf)

    def _alone_or_whole_apart(self, side: int, sink: Sink) -> float:
        apart = self._value_apart(side, sink.row, sink.raw)
        if math.isfinite(apart) or self._has_counterpart(sink.row):
            return apart
        return self._whole_apart(side, self._place(side, sink.entry, sink.row))

    def _has_counterpart(self, row: int) -> bool:
        """Return whether both sides have a value of one shape in a row, of a module that both call as often: else they
        call it for other portions, and the numbers of calls mean nothing."""
        if None in (self._table.target[row], self._table.golden[row]) or self._kind[row] == RowKind.SHAPE:
            return False
        entry = self._entry_of(row)
        return not is_module(self._table.keys[entry]) or self.sides.are_called_as_often(entry)

    @cached_property
    def _is_a_part(self) -> tuple[bool, bool]:
        """By side whether its results without counterpart are parts of what the other side computes."""
        target, golden = (
            all(
                math.isfinite(self._value_apart(side, sink.row, sink.raw))
                for sink in self._results[side]
                if not self._has_counterpart(sink.row)
            )
            for side in (0, 1)
        )
        return target, golden

    def _place(self, side: int, entry: int, row: int) -> _Place:
        leaf = (self._table.target, self._table.golden)[side][row]
        return self.sides.key(entry).stem, "" if leaf is None else leaf.suffix

    def _whole_apart(self, side: int, place: _Place) -> float:
        """Return how far all results of a function or module are apart as a whole, whatever calls make them: from those
        of its own on the other side, or of any one there that returns as many rows of one shape."""
        if (side, place) not in self._wholes_apart:
            own, others = self._wholes[side].get(place, ()), self._wholes[1 - side]
            like = (one for one in others.values() if _are_of_one_axis([*own, *one]))
            wholes = itertools.chain([others.get(place, ())], like)
            self._wholes_apart[side, place] = min(self.twins.joined_distance(own, whole) for whole in wholes)
        return self._wholes_apart[side, place]

    @cached_property
    def _wholes(self) -> tuple[dict[_Place, list[Raw]], dict[_Place, list[Raw]]]:
        """By side the results of all calls outside of modules, and of the outermost ones, by function and place."""
        sides: tuple[dict[_Place, list[Raw]], dict[_Place, list[Raw]]] = ({}, {})
        for side, wholes in enumerate(sides):
            for entry in self.sides.forward(side):
                for row, raw in self.sides.leaves(side, entry, OUTPUT) if not self.sides.key(entry).parent else ():
                    wholes.setdefault(self._place(side, entry, row), []).append(raw)
        return sides

    def uses_agree(self, row: int) -> bool:
        """Return whether what is made of the values of a row has twins, on both sides as far as they have one; or what
        the programs read, where the row has other portions, or the programs are other code."""
        if math.isfinite(self._reads.apart) and (self._table.alone or not self._has_counterpart(row)):
            return True
        return all(
            math.isfinite(self._uses_apart(side, self._entry_of(row), raw)) or self._has_rows(side, row, raw)
            for side, raw in self._tensors(row)
        )

    def is_made_up_for(self, row: int) -> bool:
        """Return whether the calls outside of modules that get the values of a row make what has twins of it, which are
        much closer than the values of the row."""
        entry, near = self._entry_of(row), MUCH_CLOSER * float(self._worst[row])
        for side, raw in self._tensors(row):
            users = (user for user in self._uses[side].of_whole(raw) if user > entry)
            results = itertools.chain.from_iterable(self.sides.leaves(side, user, OUTPUT) for user in users)
            twins = [self._value_apart(side, made, value) <= near for made, value in results]
            if not twins or not all(twins):
                return False
        return True

    def _tensors(self, row: int) -> Iterator[tuple[int, Raw]]:
        leaves = enumerate((self._table.target[row], self._table.golden[row]))
        return ((side, leaf.raw) for side, leaf in leaves if leaf is not None and is_tensor(leaf.raw))

    def _has_rows(self, side: int, row: int, raw: Raw) -> bool:
        """Return whether the other side has the rows of a value without counterpart, as far as it computes them."""
        if self._has_counterpart(row):
            return False
        return self.has_twin(side, row, raw) or (self._is_a_part[1 - side] and self.twins.rows.has_any(side, raw))

    def _uses_apart(self, side: int, entry: int, raw: Raw) -> float:
        """Return how far what is made of a value outside of all modules is from its twins, infinite where something has
        none, or nothing gets the value."""
        largest, waiting, seen = 0.0, [(entry, raw)], {mark_of(raw)}
        while waiting:
            maker, raw = waiting.pop()
            users = self._uses[side].of(raw, maker)
            results = itertools.chain.from_iterable(self.sides.leaves(side, user, OUTPUT) for user in users)
            others = [(row, made) for row, made in results if mark_of(made) != mark_of(raw)]
            if not others:
                return math.inf
            for row, made in others:
                if mark_of(made) in self._shown[side]:
                    continue
                result = Sink(self._entry_of(row), row, made)
                apart = self._alone_or_whole_apart(side, result)
                if math.isfinite(apart):
                    largest = max(largest, apart)
                elif (mark := mark_of(made)) not in seen:
                    seen.add(mark)
                    waiting.append((result.entry, made))
        return largest

    @cached_property
    def _uses(self) -> tuple[Uses, Uses]:
        """By side who gets a value."""
        return Uses(self.sides, 0), Uses(self.sides, 1)

    def _entry_of(self, row: int) -> int:
        (entry,) = self._table.entries_of([row])
        return int(entry)

    def _is_outermost(self, entry: int) -> bool:
        return is_module(self._table.keys[entry]) and not self._table.keys[entry].parent

    @cached_property
    def _shown(self) -> tuple[frozenset[Mark], frozenset[Mark]]:
        """By side the results that its losses show; none where no gradients of parameters are recorded."""
        target, golden = (
            self._shown_by_losses(side) if self._gradients.by_parameter[side] else frozenset() for side in (0, 1)
        )
        return target, golden

    def _shown_by_losses(self, side: int) -> frozenset[Mark]:
        """Return the results of calls that a backward pass reaches, of modules around them where no other call has
        them, and what these calls are made of: what a teacher returns has no gradient, and the loss shows it."""
        reached: dict[Mark, bool] = {}
        calls = list(self.sides.forward(side))
        for entry in calls:
            is_reached = self.sides.backward_of(entry, side) is not None
            for _, raw in self.sides.leaves(side, entry, OUTPUT):
                if self._is_outermost(entry):
                    reached.setdefault(mark_of(raw), is_reached)
                else:
                    reached[mark_of(raw)] = is_reached
        shown, used = {mark for mark, by_losses in reached.items() if by_losses}, set[Any]()
        order = {name: number for number, name in enumerate(self._dumps[side].data)}
        for entry in sorted(calls, key=lambda one: order.get(str(self._table.entries[one][side]), one), reverse=True):
            results = [(mark_of(raw), signature_of(raw)) for _, raw in self.sides.leaves(side, entry, OUTPUT)]
            shown.update(mark for mark, signature in results if signature in used)
            if not shown.isdisjoint(mark for mark, _ in results):
                used.update(signature_of(raw) for _, raw in self.sides.leaves(side, entry, INPUT))
                used.discard(None)
        return frozenset(shown)


def are_of_other_code(target: Set[int], golden: Set[int]) -> bool:
    """Return whether two sides share less than half of these calls, and each has some of its own."""
    shared, sizes = len(target & golden), (len(target), len(golden))
    return 2 * shared < max(sizes) and shared < min(sizes)


def _largest(parts: Iterator[float]) -> float:
    """Return the largest of these distances, negative where there is none: the first infinite one is the answer."""
    largest = -math.inf
    for apart in parts:
        largest = max(largest, apart)
        if apart == math.inf:
            break
    return largest


def _are_of_one_axis(raws: Iterable[Raw]) -> bool:
    """Return whether tensors have other lengths in one axis alone, along which they may be put together."""
    shapes = {tuple(raw["shape"]) if is_shape(raw.get("shape")) else () for raw in raws}
    axes = list(zip(*shapes, strict=True)) if len(set(map(len, shapes))) == 1 else []
    return sum(len(set(lengths)) > 1 for lengths in axes) == 1


def _tensors(leaves: Sequence[Leaf | None]) -> Iterator[Raw]:
    return (leaf.raw for leaf in leaves if leaf is not None and is_tensor(leaf.raw))
