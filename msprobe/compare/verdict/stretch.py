"""The stretch of calls in which a value becomes wrong that both programs should have.

Two programs that compute one thing by other code have few values in common: what layers with the same parameters get
and return, and what leaves the step. The first of them without a twin is the *boundary*. Following back from there what
has none either ends at values that have twins. The calls in between are the *stretch*: the difference arises in one of
them, or in code between them that leaves no record (a view, a slice, an index).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from msprobe.compare.records.entries import OF_PARAMETERS, parent_of, stem_of
from msprobe.compare.verdict.twins import Raw, Twins, norm_of, order_of, with_near_norm
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import PARAMETER
from msprobe.core.tensors.statistics import LARGEST
from msprobe.trace.leaves import element_count, is_shape
from msprobe.trace.likeness import bound_of, is_float, is_mask, is_masked, same_values
from msprobe.trace.moves import Move, Moves, Trail
from msprobe.trace.trace import Call, Trace, Value
from msprobe.trace.values import signature_of

_Place = tuple[str, str, int]
_NOWHERE: _Place = "", "", -1
_UNLIKELY = 0.05
"""The probability of what is taken not to happen."""


class Stretch(NamedTuple):
    """Where a value of the target becomes wrong.

    Attributes:
        calls: names of the calls, in the order of execution.
        first: the first of them that makes numbers: positions, indices and masks have another form in other code, and
            what is made of them tells.
        boundary: the first wrong value that both programs should have.
        golden: the call of the golden run that has the right one; None where no call is known to.
        left_out: the call of the golden run that makes what the boundary should have been made of, and is not; None
            where what it was made of is that, or is wrong itself.
        moved: the last call that moves right values before ``first`` gets a wrong one; None where none is recorded.
        broken: whether a wrong value in it comes from code without a record, so that it may begin earlier, or inside of
            a module.
    """

    calls: tuple[str, ...]
    first: str
    boundary: Value
    golden: str | None
    left_out: str | None = None
    moved: Move | None = None
    broken: bool = False


class _Boundary(NamedTuple):
    value: Value
    inputs: list[Value]
    """The wrong inputs of the call; of a result that is wrong by itself none."""

    @property
    def is_of_unsure(self) -> bool:
        """Whether it is made of values of which is not known whether they are wrong."""
        return bool(self.inputs) and self.value not in self.inputs


class StretchSearch:
    """Finds the stretch in which a target goes wrong.

    Args:
        dumps: those of target and golden run.
        traces: their forward calls.
        coarsest: the unit round-off of the coarsest dtype that a value has passed.
        pairs: the entries of the golden run by those of the target.
    """

    def __init__(
        self, dumps: Sequence[Dump], traces: Sequence[Trace], coarsest: float, pairs: Mapping[str, str]
    ) -> None:
        self._traces, self._pairs = tuple(traces), pairs
        target_raws, golden_raws = (
            (value.raw for call in trace.calls for value in call.values) for trace in self._traces
        )
        self._twins = Twins((target_raws, golden_raws), coarsest, [dump.tensor_folder for dump in dumps])
        self._sides = tuple(_Side(*both) for both in zip(self._traces, dumps, strict=True))
        known = self._sides[0].parameters.keys() | self._sides[1].parameters.keys()
        for side in self._sides:
            side.known = known
        self._others: dict[int, list[Call]] = {}
        self._known: dict[int, bool] = {}  # by the id of a value of the target whether it has a twin
        self._extremes: dict[int, bool] = {}  # the same of an extreme

    def turned(self) -> StretchSearch:
        """Return the search with the sides exchanged."""
        other = copy(self)
        other._traces, other._sides = self._traces[::-1], self._sides[::-1]
        other._others, other._known, other._extremes = {}, {}, {}
        other._pairs = {golden: target for target, golden in self._pairs.items()}
        for name in ("_right", "_has_other_portions"):
            vars(other).pop(name, None)
        other._twins = self._twins.turned()
        return other

    def has_twins(self, name: str) -> bool:
        """Return whether the golden run has all that a call of the target returns."""
        call = self._traces[0].by_name.get(name)
        return call is not None and bool(call.returned) and not self._without_twin(call, call.returned)

    def is_right(self, name: str) -> bool:
        """Return whether the golden run has what a call of the target returns, or what is made of it."""
        call = self._traces[0].by_name.get(name)
        returned = () if call is None else call.returned
        return bool(returned) and all(id(value.root) in self._right for value in returned)

    def makers_of(self, name: str, raw: Raw) -> list[str]:
        """Return the calls by which a wrong value comes about that a call of the target gets, in the order of
        execution: those that make values which the golden run has not."""
        call = self._traces[0].by_name.get(name)
        values = [] if call is None else [value for value in call.values if value.raw is raw]
        numbers, _, _ = self._behind_twins(_Boundary(values[0], values)) if values else (set[int](), {}, False)
        calls = (self._traces[0].calls[number] for number in sorted(numbers))
        return [one.name for one in calls if one is not call]

    def run(self, sinks: Iterable[tuple[str, Raw]]) -> Stretch | None:
        """Return the stretch before the first wrong value; None where no forward call shows it.

        Args:
            sinks: what leaves the step without a twin, as records with the names of the calls that return them.
        """
        boundary = self._boundary() or self._first_sink(sinks)
        if boundary is None:
            return None
        own = boundary.value.call
        numbers, moved, broken = self._behind_twins(boundary) if boundary.inputs else ({own.number}, {}, False)
        if boundary.is_of_unsure:
            numbers, broken = numbers | self._behind_parameters(boundary.inputs), True
        calls = [self._traces[0].calls[number] for number in sorted(numbers)]
        broken |= any(call.begin < call.number for call in calls)
        likely = [call for call in calls if boundary.is_of_unsure and self._wrong(call, call.returned)]
        first = next((call for call in (*likely, *calls) if _makes_numbers(call)), calls[0])
        golden = next((call.name for call in self._counterparts(own)), None)
        left_out = self._left_out(own) if calls == [own] and not boundary.is_of_unsure else None
        names = tuple(call.name for call in calls)
        move = moved.get(first.number)
        if move is not None and len(calls) > 1 and move.chooses:
            move = None  # a part of a right value has no counterpart where the golden run goes on with all of it
        return Stretch(names, first.name, boundary.value, golden, left_out, move, broken)

    def _left_out(self, call: Call) -> str | None:
        """Return the call of the golden run that makes what the counterpart of a call gets, where the target has no
        such value."""
        others = [other for other in self._counterparts(call) if _function(other) == _function(call)]
        given = (value for other in others[:1] for value in self._sides[1].data(other))
        lacking = (value for value in given if not math.isfinite(self._twins.apart(1, value.raw)))
        makers = (maker for value in lacking for maker in self._sides[1].makers(value, reordered=False)[0])
        return next((maker.name for maker in makers if not self._is_in_target(maker)), None)

    def _is_in_target(self, call: Call) -> bool:
        """Return whether the target has all that a call of the golden run returns."""
        return all(math.isfinite(self._twins.apart(1, value.raw)) for value in call.returned)

    # The boundary

    def _boundary(self) -> _Boundary | None:
        """Return the first result, or input, that both programs should have, and that is wrong."""
        for call in self._traces[0].calls:
            if call.begin < call.number:
                if (result := self._wrong_result_of_module(call)) is not None:
                    return _Boundary(result, [result])
                continue
            if call.number not in self._sides[0].places:
                continue  # what a parameter is made by
            others = self._counterparts(call) if self._sides[0].parameters_of(call) else []
            results = self._wrong(call, call.returned) if others else []
            if not results:
                continue  # what it gets may be in another form
            inputs = self._wrong(call, self._sides[0].data(call))
            if any(self._is_comparable(call, value) for value in inputs):
                return _Boundary(inputs[0], inputs)
            if not any(self._is_comparable(call, value) for value in results):
                continue
            same = any(_function(other) == _function(call) for other in others)
            lacking = self._without_twin(call, self._sides[0].data(call))
            unsure = [value for value in lacking if self._extremes.get(id(value))]
            if not (same or lacking):
                unsure = self._of_unknown_order(call)  # a view may have put them into another one
            if unsure or (same and all(map(self._is_made, lacking))):
                return _Boundary(results[0], unsure)
        return None

    def _of_unknown_order(self, call: Call) -> list[Value]:
        """Return what a call gets that the golden run has in other shapes alone."""
        return [value for value in self._sides[0].data(call) if not self._twins.has_one_of_shape(0, value.raw)]

    def _wrong_result_of_module(self, call: Call) -> Value | None:
        """Return a wrong result of a module that both runs call with the same data, of the size of that of the golden
        run; None where there is none."""
        other = self._traces[1].by_name.get(self._pairs.get(call.name, ""))
        given = [] if other is None else list(zip(self._sides[0].data(call), self._sides[1].data(other), strict=False))
        if other is None or not given or any(math.isinf(self._twins.distance(own.raw, one.raw)) for own, one in given):
            return None
        pairs = zip(call.returned, other.returned, strict=False)
        like = {id(own) for own, one in pairs if element_count(own.raw) == element_count(one.raw)}
        return next((value for value in self._wrong(call, call.returned) if id(value) in like), None)

    def _first_sink(self, sinks: Iterable[tuple[str, Raw]]) -> _Boundary | None:
        value = next(self._values_of(sinks), None)
        return None if value is None else _Boundary(value, [value])

    def _values_of(self, sinks: Iterable[tuple[str, Raw]]) -> Iterator[Value]:
        for name, raw in sinks:
            call = self._traces[0].by_name.get(name)
            yield from (one for one in (() if call is None else call.returned) if one.raw is raw)

    def _counterparts(self, call: Call) -> list[Call]:
        """Return the calls of the golden run in the place of one of the target, else those that get one of its
        parameters."""
        if call.number not in self._others:
            self._others[call.number] = self._in_place(call) or self._with_parameter(call)
        return self._others[call.number]

    def _in_place(self, call: Call) -> list[Call]:
        target, golden = self._sides
        return golden.by_place.get(target.places.get(call.number, _NOWHERE), [])

    def _with_parameter(self, call: Call) -> list[Call]:
        """Return the calls of the golden run with a parameter of a call of the target, and with as many matrices: what
        a call with more of them gets and returns, such as a recurrent layer, stands before or behind several."""
        target, golden = self._sides
        near = (other for value in target.parameters_of(call) for other in golden.calls_with(value.raw))
        like = {other.number: other for other in near if golden.matrices(other) == target.matrices(call)}
        return sorted(like.values(), key=lambda one: one.number)

    def _like(self, call: Call) -> list[Call]:
        """Return the calls of the target in the place of one, itself among them."""
        target = self._sides[0]
        if self._in_place(call):
            return target.by_place[target.places[call.number]]
        return target.by_signatures.get(tuple(target.signatures_of(call)), [])

    def _wrong(self, call: Call, values: Sequence[Value]) -> list[Value]:
        """Return which of the inputs, or results, of a call of the target are not right."""
        return [
            value
            for number, value in enumerate(values)
            if not (self._has_twin(call, number, value) or self._has_extreme(call, number, value))
            and (id(value.root) not in self._right or self._is_in_other_order(call, number, value))
        ]

    @cached_property
    def _has_other_portions(self) -> bool:
        """Whether most calls with the parameters of the golden run return more or less than the calls there do."""
        calls = [call for call in self._sides[0].calls if call.number in self._sides[0].with_parameters]
        pairs = [(call, others) for call in calls if (others := self._with_parameter(call)) and call.returned]
        sizes = (
            (element_count(call.returned[0].raw), self._sides[1].values_at(others, 0, returned=True))
            for call, others in pairs
        )
        return 2 * sum(size not in map(element_count, others) for size, others in sizes) > len(pairs)

    def _has_extreme(self, call: Call, number: int, value: Value) -> bool:
        """Return whether the golden run has a value with an extreme of one in whose size it has none, in the place of
        the call where there is one: what is wrong in a part of its elements alone may have it too."""
        if id(value) not in self._extremes:
            raw = value.raw
            other = self._has_other_portions and not self._sides[1].has_size(raw)
            in_place = self._sides[1].values_at(self._counterparts(call), number, returned=value in call.returned)
            self._extremes[id(value)] = other and self._twins.has_whole_or_part(0, raw, in_place)
        return self._extremes[id(value)]

    def _without_twin(self, call: Call, values: Sequence[Value]) -> list[Value]:
        return [value for number, value in enumerate(values) if not self._has_twin(call, number, value)]

    def _is_made(self, value: Value) -> bool:
        """Return whether the golden run has the result that an input is, in the place of the call that makes it."""
        root = value.root
        return root in root.call.returned and self._has_twin(root.call, root.call.returned.index(root), root)

    @cached_property
    def _right(self) -> Set[int]:
        """The ids of the values of the target that are right: the golden run has them, or what a call makes of them.
        A normalised input that is scaled and shifted to what the golden run has, is another way to compute it."""
        right: set[int] = set()
        for call in reversed(self._sides[0].calls):
            results = enumerate(call.returned)
            right |= {
                id(value)
                for number, value in results
                if self._has_twin(call, number, value) or self._is_right_in_parts(value)
            }
            if self._makes_right(call, right):
                right |= {id(value.root) for value in self._sides[0].data(call) if is_float(value.raw)}
        return right

    def _is_right_in_parts(self, result: Value) -> bool:
        """Return whether calls get all of a result in parts, and each of them has a twin: what is fused here is split
        there."""
        parts = self._sides[0].parts.get(id(result), [])
        if sum(element_count(value.raw) for _, value in parts) < element_count(result.raw):
            return False
        return all(self._has_twin(value.call, number, value) for number, value in parts)

    def _makes_right(self, call: Call, right: Set[int]) -> bool:
        """Return whether all that a call returns is right: no constant, more than a number, and no mask hides it."""
        raws = [value.raw for value in call.returned]
        return (
            bool(raws)
            and all(id(value) in right for value in call.returned)
            and all(norm_of(raw) > 0.0 and element_count(raw) > 1 and not is_masked(raw) for raw in raws)
        )

    def _has_twin(self, call: Call, number: int, value: Value) -> bool:
        if id(value) not in self._known:
            self._known[id(value)] = self._find_twin(call, number, value)
        return self._known[id(value)]

    def _find_twin(self, call: Call, number: int, value: Value) -> bool:
        if self._is_in_other_order(call, number, value):
            return False
        if math.isfinite(self._twins.apart(0, value.raw)):
            return True
        if self._is_reordered and self._twins.are_in_another_order(0, value.raw):
            return True
        return self._has_joined_twin(call, number, value) or self._has_row_twins(call, number, value)

    def _is_in_other_order(self, call: Call, number: int, value: Value) -> bool:
        """Return whether the calls with the parameters of a call get, or return, the same elements in the same shape,
        and none of them in the same order. A value of another shape says nothing of the order."""
        if self._is_reordered or not self._sides[0].parameters_of(call):
            return False
        raw, returned = value.raw, value in call.returned
        others = self._sides[1].values_at(self._counterparts(call), number, returned=returned)
        like = [one for one in others if one.get("shape") == raw.get("shape") and self._twins.hold_the_same(raw, one)]
        return bool(like) and all(math.isinf(self._twins.distance(raw, one)) for one in like)

    def _has_row_twins(self, call: Call, number: int, value: Value) -> bool:
        """Return whether one run has the rows of a value of the other one: of a value of the target, or of all smaller
        ones that the golden run has in its place."""
        rows, raw = self._twins.rows, value.raw
        if math.isfinite(rows.apart(0, raw)):
            return True
        others = self._sides[1].values_at(self._counterparts(call), number, returned=value in call.returned)
        parts = [other for other in others if element_count(other) < element_count(raw)]
        return bool(parts) and rows.has_any(0, raw) and all(math.isfinite(rows.apart(1, one)) for one in parts)

    @cached_property
    def _is_reordered(self) -> bool:
        """Whether the golden run has a parameter of the target in another order: so it has what is made of it. Of a
        transposed matrix the same is made."""
        parameters = ((call, value) for call in self._sides[0].calls for value in self._sides[0].parameters_of(call))
        return any(
            self._is_moved(value) and (not _is_square(value.raw) or any(map(self._is_moved, call.returned)))
            for call, value in parameters
        )

    def _is_moved(self, value: Value) -> bool:
        """Return whether the golden run has the elements of a value in another order alone."""
        return not math.isfinite(self._twins.apart(0, value.raw)) and self._twins.are_in_another_order(0, value.raw)

    def _has_joined_twin(self, call: Call, number: int, value: Value) -> bool:
        """Return whether the calls in this place get, or return, the same all together: one run may do in several calls
        what the other does in one (rows of a batch, parts of a prompt, tokens one by one)."""
        pairs = self._wholes(call, number, value)
        return any(math.isfinite(self._twins.joined_distance(mine, whole)) for mine, whole in pairs)

    def _is_comparable(self, call: Call, value: Value) -> bool:
        """Return whether the golden run has a value, or several together, with as many elements in the same place, or
        with so many more or less that a part would have one of its extremes."""
        returned = value in call.returned
        number = (call.returned if returned else self._sides[0].data(call)).index(value)
        if self._wholes(call, number, value):
            return True
        others = self._sides[1].values_at(self._counterparts(call), number, returned=returned)
        return self._has_other_portions and any(_shows_extremes(value.raw, other) for other in others)

    def _wholes(self, call: Call, number: int, value: Value) -> list[tuple[list[Raw], list[Raw]]]:
        """Return what the target has in this place up to a call, or up to a later one, and what the golden run has as
        many elements of in other portions: equal ones are compared one by one."""
        others = self._counterparts(call)
        if not others:
            return []
        returned = value in call.returned
        target, golden = (
            self._sides[side].values_at(calls, number, returned=returned)
            for side, calls in enumerate((self._like(call), others))
        )
        place = next((place for place, one in enumerate(target) if one is value.raw), len(target))
        sums = list(accumulate(map(element_count, golden)))
        alone = [([value.raw], [one]) for one in golden if element_count(one) == element_count(value.raw)]
        of_round = _of_one_round(target, golden, place)
        if sum(map(element_count, of_round[0])) == sum(map(element_count, of_round[1])):
            alone.append(of_round)
        for end, size in enumerate(accumulate(map(element_count, target)), 1):
            if end <= place:
                continue
            wholes = [[one] for one in golden if element_count(one) == size]
            wholes += [golden[: last + 1] for last, total in enumerate(sums) if total == size]
            portions = list(map(element_count, target[:end]))
            if wholes := [whole for whole in wholes if list(map(element_count, whole)) != portions]:
                return alone + [(target[:end], whole) for whole in wholes]
        return alone

    # Back from it

    def _behind_twins(self, boundary: _Boundary) -> tuple[set[int], dict[int, Move], bool]:
        """Return the calls that make wrong values from which the boundary comes, or get them from code without a
        record, by their numbers the last moves of right values before calls that get them so, and whether there is such
        code."""
        stretch: set[int] = set()
        broken = False
        moved: dict[int, Move] = {}
        waiting = list(boundary.inputs)
        while waiting:
            value = waiting.pop()
            reordered = self._twins.are_in_another_order(0, value.raw)
            makers, move = self._sides[0].makers(value, self._moves_of_counterpart(value), reordered=reordered)
            wrong = [maker for maker in makers if self._wrong(maker, maker.returned)]
            if not wrong:
                broken |= move is None
                stretch.add(value.call.number)
                moved.update({} if move is None else {value.call.number: move})
            for maker in wrong:
                if maker.number not in stretch:
                    stretch.add(maker.number)
                    waiting += self._wrong(maker, self._sides[0].data(maker))
        return stretch, moved, broken

    def _moves_of_counterpart(self, value: Value) -> tuple[Move, ...]:
        """Return the moves through which a value comes to the counterpart of a call that gets it here."""
        given = self._sides[0].data(value.call)
        others = [self._sides[1].data(other) for other in self._counterparts(value.call)] if value in given else []
        others = [own for own in others if len(own) == len(given)]
        return self._sides[1].trail(others[0][given.index(value)]).moves if others else ()

    def _behind_parameters(self, values: Sequence[Value]) -> set[int]:
        """Return the calls without a twin from which values come, since those that get parameters, by their numbers."""
        side, found, waiting = self._sides[0], set[int](), list(values)
        while waiting:
            for maker in side.makers(waiting.pop(), reordered=False)[0]:
                if maker.number not in found | side.with_parameters and self._without_twin(maker, maker.returned):
                    found.add(maker.number)
                    waiting += side.data(maker)
        return found


class _Side:
    """The forward calls of a run that call no other one, and their values.

    Attributes:
        calls: these calls, in the order of execution.
        parameters: what is known to be a parameter, by signature.
        known: the signatures of the parameters of both runs: what one has as a parameter may be a buffer of the other.
    """

    def __init__(self, trace: Trace, dump: Dump) -> None:
        inner = (call for call in trace.calls if call.begin == call.number)
        self.calls = [call for call in inner if parent_of(dump.construct, call.name) not in OF_PARAMETERS]
        self.places = self._places(dump)
        self._moves = Moves(dump, trace.calls)
        self.parameters: dict[Any, list[Value]] = {}
        for call in trace.calls:
            for value in call.given:
                if value.leaf.slot == PARAMETER:
                    self.parameters.setdefault(signature_of(value.raw), []).append(value)
        self._full = [_full_of(value.raw) for value in self.parameters.pop(None, [])]
        self.known: Set[Any] = self.parameters.keys()

    def _places(self, dump: Dump) -> dict[int, _Place]:
        """Return where calls stand: the module around them, the function, and how many calls of it there are before."""
        before: Counter[tuple[str, str]] = Counter()
        places = {}
        for call in self.calls:
            parent, function = parent_of(dump.construct, call.name) or "", _function(call)
            place = stem_of(parent) if parent else "", function, before[parent, function]
            before[parent, function] += 1
            places[call.number] = place
        return places

    @cached_property
    def by_place(self) -> dict[_Place, list[Call]]:
        """The calls in each place, in the order of execution."""
        found: dict[_Place, list[Call]] = {}
        for call in self.calls:
            found.setdefault(self.places[call.number], []).append(call)
        return found

    @cached_property
    def by_signatures(self) -> dict[tuple[Any, ...], list[Call]]:
        """The calls with the same parameters, in the order of execution."""
        found: dict[tuple[Any, ...], list[Call]] = {}
        for call in self.calls:
            found.setdefault(tuple(self.signatures_of(call)), []).append(call)
        return found

    @cached_property
    def by_function(self) -> dict[str, list[Call]]:
        """The calls of each function."""
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(_function(call), []).append(call)
        return found

    def parameters_of(self, call: Call) -> list[Value]:
        return [value for value in call.given if self._is_parameter(value)]

    @cached_property
    def with_parameters(self) -> Set[int]:
        """The numbers of the calls that get parameters."""
        return {call.number for call in self.calls if self.parameters_of(call)}

    def matrices(self, call: Call) -> int:
        """Return how many parameters of a call have several axes: each is multiplied with a value of its own."""
        shapes = (value.raw.get("shape") for value in self.parameters_of(call))
        return sum(is_shape(shape) and len(shape) > 1 for shape in shapes)

    def signatures_of(self, call: Call) -> list[Any]:
        return [one for value in self.parameters_of(call) if (one := signature_of(value.raw)) is not None]

    def data(self, call: Call) -> list[Value]:
        """Return what a call gets but parameters."""
        return [value for value in call.given if not self._is_parameter(value)]

    def values_at(self, calls: Iterable[Call], number: int, *, returned: bool) -> list[Raw]:
        """Return what calls get, or return, in one place."""
        lists = (call.returned if returned else self.data(call) for call in calls)
        return [values[number].raw for values in lists if len(values) > number]

    def _is_parameter(self, value: Value) -> bool:
        if value.leaf.slot == PARAMETER or (signature := signature_of(value.raw)) in self.known:
            return True
        return signature is None and _full_of(value.raw) in self._full

    def has_size(self, raw: Raw) -> bool:
        """Return whether a call returns as many elements as a value has."""
        return element_count(raw) in self._sizes

    @cached_property
    def _sizes(self) -> Set[float]:
        return {element_count(value.raw) for call in self.calls for value in call.returned}

    def calls_with(self, raw: Raw) -> list[Call]:
        """Return the calls that get a parameter: this one, else those that get one like it."""
        exact = self._by_parameter.get(signature_of(raw), ())
        if exact:
            return [call for call, _ in exact]
        uses = self._by_size.get(element_count(raw), [])
        near = with_near_norm(uses, raw, _order_of_use, max(self._bound, bound_of(raw)))
        return [call for call, one in near if same_values(raw, one)]

    @cached_property
    def _bound(self) -> float:
        """How far the norms of one parameter in two dtypes may be apart."""
        return bound_of({}, *(uses[0][1] for uses in self._by_parameter.values()))

    @cached_property
    def _by_size(self) -> dict[float, list[tuple[Call, Raw]]]:
        """The calls that get a parameter, with it, by its number of elements, in the order of the norms."""
        found: dict[float, list[tuple[Call, Raw]]] = {}
        for use in sorted((use for uses in self._by_parameter.values() for use in uses), key=_order_of_use):
            found.setdefault(element_count(use[1]), []).append(use)
        return found

    @cached_property
    def _by_parameter(self) -> dict[Any, list[tuple[Call, Raw]]]:
        """The calls that get a parameter, with it, by its signature."""
        found: dict[Any, list[tuple[Call, Raw]]] = {}
        for call in self.calls:
            for value in self.parameters_of(call):
                if (signature := signature_of(value.raw)) is not None:
                    found.setdefault(signature, []).append((call, value.raw))
        return found

    def makers(self, value: Value, right: Sequence[Move] = (), *, reordered: bool) -> tuple[list[Call], Move | None]:
        """Return the calls from whose results comes what another one gets, and the move in between that may be wrong,
        where ``right`` are those of the right value; None where none is known. ``reordered`` says whether the value has
        the right elements in another order."""
        trail = self.trail(value)
        makers = list(dict.fromkeys(source.call for source in trail.sources))
        return makers, trail.decisive(right, reordered=reordered) if trail.sources or not value.is_source else None

    def trail(self, value: Value) -> Trail:
        """Return how a value came to the call that gets it from results of calls that are no modules."""
        if not value.is_source:
            inside = self._inside(value.root)
            return (
                inside
                if inside.sources != (value.root,)
                else self._moves.behind(value)._replace(sources=inside.sources)
            )
        trail = self._moves.behind(value)
        inner = list(map(self._inside, trail.sources))
        moves = (move for one in (trail, *inner) for move in one.moves)
        return Trail(tuple(moves), tuple(source for one in inner for source in one.sources))

    def _inside(self, result: Value) -> Trail:
        """Return how what a module returns comes from the calls inside of it; that itself where no such call is
        known."""
        trail = self._moves.behind(result) if result.call.begin < result.call.number else Trail((), ())
        inner = list(map(self._inside, trail.sources))
        if not inner:
            return Trail((), (result,))
        moves = (move for one in (trail, *inner) for move in one.moves)
        return Trail(tuple(moves), tuple(source for one in inner for source in one.sources))

    @cached_property
    def parts(self) -> dict[int, list[tuple[int, Value]]]:
        """By the id of a result the smaller values that calls get of it, with their places among what these get."""
        found: dict[int, list[tuple[int, Value]]] = {}
        given = ((number, value) for call in self.calls for number, value in enumerate(self.data(call)))
        for number, value in given:
            for source in self._moves.behind(value).sources if value.is_source else ():
                if element_count(value.raw) < element_count(source.raw):
                    found.setdefault(id(source), []).append((number, value))
        return found


def _of_one_round(target: list[Raw], golden: list[Raw], place: int) -> tuple[list[Raw], list[Raw]]:
    """Return what both runs have of a round in which one of them calls for all requests at once, and the other one for
    one request: it makes all rounds of a request before those of the next."""
    rounds = max(1, min(len(target), len(golden)))
    first = place % rounds
    return target[first::rounds], golden[first::rounds]


def _shows_extremes(*raws: Raw) -> bool:
    """Return whether the smaller one of two values is so much of the other that it hardly lacks both extremes, if it is
    a part of it: each is in it by the share of its elements."""
    smaller, larger = sorted(map(element_count, raws))
    return larger > 0.0 and (1.0 - smaller / larger) ** 2 < _UNLIKELY


def _is_square(raw: Raw) -> bool:
    shape = raw.get("shape")
    return is_shape(shape) and len(shape) == 2 and shape[0] == shape[1]


def _full_of(raw: Raw) -> tuple[Any, ...]:
    """Return what is known of a parameter that is full of one number, such as a new bias."""
    return raw.get("shape"), raw.get(LARGEST.name), raw.get("requires_grad")


def _order_of_use(use: tuple[Call, Raw]) -> float:
    return order_of(use[1])


def _makes_numbers(call: Call) -> bool:
    """Return whether a call returns floating-point numbers that are no mask."""
    return any(is_float(value.raw) and not is_mask(value.raw) for value in call.returned)


def _function(call: Call) -> str:
    """Return the name of a function, or the class of a module."""
    return stem_of(call.name).rpartition(".")[2]
