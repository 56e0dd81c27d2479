"""Calls in another order, and what the other run does where one run alone makes a call.

``moved_call``: a call that both runs make in one module, one of them before and the other after some call of both.

The alignment keeps the order of calls, so it leaves such a call without a partner on both sides. It is one call in
another order, and neither run lacks it.

The target runs ``gelu, tanh`` and the golden run ``tanh, gelu``: ``tanh`` pairs, and ``gelu`` stands once alone for the
target and once alone for the golden run, with ``tanh`` between.

``exchanged_call``: modules pair by their path, and functions by the line that calls them, whenever they are called. Two
modules, or two functions, of one parent are called in another order, and one of them gets in one run what the other one
gets in the other run.

``other_value``: a call gets the result of one call in the target, and that of another one in the golden run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import lt
from typing import Any, NamedTuple

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, Absence, EntryPair, is_module
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import is_part, same_values

_UNEXCUSED = None, Absence.OTHER_CODE, Absence.NOT_SHOWN
UNMADE = "a value that no recorded call returns"
"""In words, what no recorded call has made."""
_REACH = 64
"""How many entries away the other run may make the call."""


class MovedCall(NamedTuple):
    """A call in another order.

    ``pair`` has the names of the call on both sides; ``text`` says in words which side calls it before what.
    """

    pair: EntryPair
    text: str


def moved_call(table: LeafTable, entry: int) -> MovedCall | None:
    """Return where the other run makes the call of an entry that one side alone has; None where it makes none.

    The other run has to make it in the same module, without a partner as well, and one call of both runs has to lie
    between: in that module, or outside of it where its calls move together (an optimizer, the clipping of gradients).
    """
    own, key = table.entries[entry], table.keys[entry]
    in_golden = own.target is None
    for step in (1, -1):
        beside: EntryPair | None = None
        between: EntryPair | None = None
        for number in range(entry + step, entry + step * _REACH, step):
            if not 0 <= number < len(table.entries):
                break
            pair, other = table.entries[number], table.keys[number]
            same = (other.stem, other.phase, other.parent) == (key.stem, key.phase, key.parent)
            if pair.target is not None and pair.golden is not None:
                between = between or (pair if other.phase == key.phase else None)
                beside = beside or (pair if (other.phase, other.parent) == (key.phase, key.parent) else None)
            elif same and _is_alone(pair, in_golden=not in_golden) and not _is_made_otherwise(table, number):
                passed = beside or (between if key.parent in OF_PARAMETERS else None)
                return _moved(own, pair, passed, first=step > 0) if passed is not None else None
    return None


def _is_alone(pair: EntryPair, *, in_golden: bool) -> bool:
    """Return whether one side alone has an entry, and nothing but other code excuses it."""
    return pair.absence in _UNEXCUSED and (pair.golden, pair.target)[in_golden] is None


def _is_made_otherwise(table: LeafTable, entry: int) -> bool:
    """Return whether the other run computes what the forward call of an entry returns, by another function: then it is
    no call in another order."""
    in_golden = table.entries[entry].target is None
    forward = in_phase(table.entries[entry].name, Phase.FORWARD.value)
    own = [number for number, pair in enumerate(table.entries) if pair[in_golden] == forward]
    results = [raw for number in own for raw in _results(table, number, in_golden=in_golden)]
    others = [
        raw
        for number, pair in enumerate(table.entries)
        if _is_alone(pair, in_golden=not in_golden)
        if table.keys[number].phase == Phase.FORWARD.value and table.keys[number].stem != table.keys[entry].stem
        for raw in _results(table, number, in_golden=not in_golden)
    ]
    return bool(results) and all(any(same_values(raw, other) for other in others) for raw in results)


def _results(table: LeafTable, entry: int, *, in_golden: bool) -> list[Mapping[str, Any]]:
    leaves = (table.target, table.golden)[in_golden]
    found = (leaves[row] for row in table.rows_of(entry))
    return [leaf.raw for leaf in found if leaf is not None and leaf.slot == OUTPUT and is_tensor(leaf.raw)]


def exchanged_call(table: LeafTable, golden: Sequence[str], entry: int) -> MovedCall | None:
    """Return how a module that both runs call comes in another order than a module beside it, or a function than a
    function; None where it does not.

    Calls beside each other that get the same values are in no order that matters. So one of them has to get in one run
    what the other one gets in the other run.

    Args:
        table: both dumps; its entries are in the order of the target.
        golden: the names of the golden run in its order.
        entry: the module or function.
    """
    keys, own = table.keys, table.entries[entry]
    if keys[entry].phase != Phase.FORWARD.value or not own.of_both:
        return None
    if [pair.golden for pair in table.entries] == golden:
        return None
    order = {name: position for position, name in enumerate(golden)}
    positions = [order.get(pair.golden or "", -1) for pair in table.entries if pair.of_both]
    if all(map(lt, positions, positions[1:])):
        return None
    for number in _beside(table, entry):
        other = table.entries[number]
        early, late = (entry, number) if entry < number else (number, entry)
        turned = order[table.entries[early].golden or ""] > order[table.entries[late].golden or ""]
        if turned and (_gets_same(table, entry, number) or _gets_same(table, number, entry)):
            return MovedCall(own, _in_another_order(other, target_first=early == entry))
    return None


def _beside(table: LeafTable, entry: int) -> Iterator[int]:
    """Yield the modules or functions of the same parent that both runs call, nearest first."""
    own, own_module = table.keys[entry], is_module(table.keys[entry])
    count = len(table.keys)
    for distance in range(1, count):
        for number in (entry - distance, entry + distance):
            if not 0 <= number < count or not table.entries[number].of_both:
                continue
            other = table.keys[number]
            same = other.phase == own.phase and other.parent == own.parent and is_module(other) == own_module
            if same and other.stem != own.stem:
                yield number


def _gets_same(table: LeafTable, in_target: int, in_golden: int) -> bool:
    """Return whether an entry gets the tensors in the target that another one gets in the golden run."""
    target = _inputs(table.target[row] for row in table.rows_of(in_target))
    golden = _inputs(table.golden[row] for row in table.rows_of(in_golden))
    return bool(target) and len(target) == len(golden) and all(map(same_values, target, golden))


def _inputs(leaves: Iterable[Leaf | None]) -> list[Mapping[str, Any]]:
    return [leaf.raw for leaf in leaves if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw)]


def call_instead(table: LeafTable, entry: int, *, golden_only: bool) -> int | None:
    """Return the call that the other side alone has beside an entry that one side alone has; None where it has none."""
    for number in (entry - 1, entry + 1):
        if 0 <= number < len(table.entries):
            pair = table.entries[number]
            if pair.absence in _UNEXCUSED and (pair.golden if golden_only else pair.target) is None:
                return number
    return None


def other_value(table: LeafTable, golden: Sequence[str], row: int, entry: int, before: int) -> str | None:
    """Return in words which results of calls the two runs give to a call; None where no recorded call returns them.

    Args:
        table: both dumps; its entries are in the order of the target.
        golden: the names of the golden run in its order.
        row: the input that differs.
        entry: the call.
        before: the first entry inside of it, or the call.
    """
    makers = [_maker(table, row, before, in_golden=in_golden) for in_golden in (False, True)]
    later = ""
    if makers[1] is None and (maker := _maker(table, row, len(table.entries), in_golden=True)) is not None:
        order = {name: position for position, name in enumerate(golden)}
        own, other = table.entries[entry], table.entries[maker]
        if other.of_both and order.get(other.golden or "", len(order)) < order.get(own.golden or "", 0):
            makers[1], later = maker, ", and the target makes that call afterwards"
    if makers[0] == makers[1]:
        same = makers[0]
        return None if same is None else f"both runs give it what {table.entries[same].sided} returns"
    texts = [
        UNMADE if maker is None else f"what {table.entries[maker][side]} returns" for side, maker in enumerate(makers)
    ]
    return f"the target gives it {texts[0]}, the golden run {texts[1]}{later}"


def source_of_value(table: LeafTable, row: int, before: int, wrong: Callable[[int], Sequence[int]]) -> int | None:
    """Return the call that a wrong value comes from: the first of the calls of one run alone that make it, or a call of
    both runs that makes it of nothing wrong. None where no recorded call does.

    Calls of both runs that pass the wrong value on lie in between: where their module or formula agrees in the end,
    they and the calls of one run are excused.

    Args:
        table: both dumps.
        row: the value.
        before: the entry that gets it.
        wrong: returns the rows of the wrong inputs of an entry.
    """
    flows = [own_flow(table, in_golden=in_golden) for in_golden in (False, True)]
    while True:
        leaves = table.target[row], table.golden[row]
        made = [
            None if leaf is None else flow.maker(leaf.raw, before) for flow, leaf in zip(flows, leaves, strict=True)
        ]
        for flow, maker in zip(flows, made, strict=True):
            if maker is not None and maker in flow.alone:
                return flow.chain(maker)[0]
        if made[0] is None or made[0] != made[1]:
            return None
        if not (rows := wrong(made[0])):
            return made[0]
        row, before = rows[0], made[0]


def call_before(table: LeafTable, row: int, before: int, *, in_golden: bool) -> int | None:
    """Return the call of one run alone of which a value may come through an operation without a record; None where
    there is none. The last such call before an entry ends a chain of calls of this run alone, and the first call of the
    chain is returned.

    Args:
        table: both dumps.
        row: the value.
        before: the entry that gets it, or the first one inside of it; of a result the entry that returns it.
        in_golden: whether the run is the golden run.
    """
    leaf, key = table.leaf(int(in_golden), row), table.keys[before]
    if leaf is None or not is_tensor(leaf.raw):
        return None
    flow = own_flow(table, in_golden=in_golden)
    around = key.stem if leaf.slot == OUTPUT else key.parent
    behind = False  # whether a call of both runs of the same phase lies between
    for number in range(before - 1, -1, -1):
        own = table.keys[number]
        behind |= table.entries[number].of_both and own.phase == key.phase
        if number not in flow.alone or own.phase not in (Phase.FORWARD.value, key.phase) or not is_own(table, number):
            continue
        made = list(flow.values_of(number, OUTPUT))
        is_last = number == before - 1 and bool(own.parent) and own.parent == around
        is_unused = own.parent == key.parent and not flow.is_shown(number)
        as_large = any(element_count(raw) == element_count(leaf.raw) for raw in made)
        part = any(is_part(raw, leaf.raw) or is_part(leaf.raw, raw) for raw in made)
        if is_last or (as_large and (is_unused or not behind)) or (part and is_unused):
            return flow.chain(number)[0]
    return None


def is_own(table: LeafTable, entry: int) -> bool:
    """Return whether an entry is a call that the program of one run alone makes: the other one may have made it, and
    recorded it."""
    pair = table.entries[entry]
    return not pair.of_both and pair.absence in (*_UNEXCUSED, Absence.OTHER_PROGRAM)


def own_flow(table: LeafTable, *, in_golden: bool) -> ValueFlow:
    """Return the values of one side, and what it alone calls."""
    alone = {number for number, pair in enumerate(table.entries) if pair[not in_golden] is None}
    return ValueFlow(table, in_golden=in_golden, alone=alone)


def _maker(table: LeafTable, row: int, before: int, *, in_golden: bool) -> int | None:
    """Return the last call before an entry that made the value of a row on one side; None where none did."""
    leaf = (table.target, table.golden)[in_golden][row]
    flow = own_flow(table, in_golden=in_golden)
    return None if leaf is None else flow.maker(leaf.raw, before)


def _moved(own: EntryPair, other: EntryPair, between: EntryPair, *, first: bool) -> MovedCall:
    """Return the answer; ``first`` says that the side of ``own`` makes the call before the other side does."""
    pair = EntryPair(own.target or other.target, own.golden or other.golden)
    return MovedCall(pair, _in_another_order(between, target_first=(own.golden is None) == first))


def _in_another_order(between: EntryPair, *, target_first: bool) -> str:
    early, late = ("target", "golden run") if target_first else ("golden run", "target")
    return f"in another order: the {early} makes this call before {between.sided}, the {late} after it"
