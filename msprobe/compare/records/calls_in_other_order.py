"""Calls of one module that one run makes in another order: which of them belong together.

A head that serves several levels, a tower that sees both halves of a batch, a model that is adapted to one task after
the other: the calls of a module have one name, and their numbers tell only their order. Where the inputs of all calls
of a module are those of the other run in another order, these calls belong together, with all calls inside of them.
Where an earlier fault has changed the values, their shapes tell it, if no two calls have the same. Functions outside of
these modules follow, where the same text of source makes them equally often: those of equal inputs belong together.

What is not the same inputs in another order stays in its order: a loop over time whose states are exchanged is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.records.call_source import call_source
from msprobe.compare.records.entries import OF_PARAMETERS, EntryKey, is_module, parents_of
from msprobe.compare.records.source_lines import source_frame
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, is_tensor, leaves
from msprobe.trace.likeness import same_values

Pairs = list[tuple[int, int]]
"""Positions of calls that belong together, target first."""
_Tensors = Sequence[Mapping[str, Any]]
_Call = tuple[str, str]
_Likeness = Callable[[_Tensors, _Tensors], bool]


class Calls(NamedTuple):
    """The entries of one side with their dump."""

    dump: Dump
    keys: Sequence[EntryKey]

    def inputs(self, position: int) -> _Tensors:
        """Return the tensors that a call gets."""
        name = self.keys[position].name
        body = self.dump.data[name]
        return [leaf.raw for leaf in leaves(name, body) if leaf.slot == INPUT and is_tensor(leaf.raw)]

    def line(self, position: int) -> Hashable:
        """Return function and text of the source line that makes a call; None where it is not recorded."""
        frame = source_frame(call_source(self.dump, self.keys[position].name).stack)
        return (frame.function, frame.code) if frame is not None and frame.code else None


def in_one_order(pairs: Pairs, target: Calls, golden: Calls) -> Pairs:
    """Return the pairs of forward calls with those exchanged that one side makes in another order; the same list where
    there are none."""
    moved = dict(_moved_modules(pairs, target, golden))
    if not moved:
        return pairs
    partner = dict(pairs)
    settled: set[int] = set()
    inside = _inside(target, moved.keys()), _inside(golden, moved.values())
    for i, j in sorted(moved.items(), reverse=True):  # outer modules are recorded after what is in them
        if i in settled:
            continue
        left, right = inside[0][i], inside[1][j]
        if [target.keys[one].stem for one in left] == [golden.keys[one].stem for one in right]:
            partner.update(zip((i, *left), (j, *right), strict=True))
            settled.update((i, *left))
    if len(set(partner.values())) < len(partner):  # a part of the modules could not be exchanged
        return pairs
    partner.update(_functions(partner, settled, target, golden))
    return sorted(partner.items())


def may_be_in_another_order(target: Calls, golden: Calls) -> bool:
    """Return whether a later call of a module gets other values, of two lists of the same calls: a part of a dump need
    not have the first one, which may have these values on the other side."""
    later = (
        number
        for number, key in enumerate(target.keys)
        if key.call and is_module(key) and key.phase == Phase.FORWARD.value and not key.recompute
    )
    return any(not _are_same(target.inputs(number), golden.inputs(number)) for number in later)


def _moved_modules(pairs: Pairs, target: Calls, golden: Calls) -> Iterator[tuple[int, int]]:
    """Yield the pairs of module calls that are exchanged."""
    groups: dict[_Call, Pairs] = {}
    for i, j in pairs:
        key, other = target.keys[i], golden.keys[j]
        if is_module(key) and key.phase == Phase.FORWARD.value and not key.recompute and key.stem == other.stem:
            groups.setdefault((key.stem, key.parent), []).append((i, j))
    for group in groups.values():
        if len(group) > 1:
            yield from _exchanged(group, target, golden, (_are_same, _have_one_shape))


def _exchanged(group: Pairs, target: Calls, golden: Calls, likenesses: Iterable[_Likeness]) -> Pairs:
    """Return the pairs of a group by what the calls get, where that is another order; nothing otherwise."""
    left, right = [target.inputs(i) for i, _ in group], [golden.inputs(j) for _, j in group]
    if all(map(_are_same, left, right)):
        return []
    for like in likenesses:
        order = _order(left, right, like)
        if order is not None and order != sorted(order):
            return [(group[n][0], group[m][1]) for n, m in enumerate(order)]
    return []


def _order(left: Sequence[_Tensors], right: Sequence[_Tensors], like: _Likeness) -> list[int] | None:
    """Return for each call of the left side which call of the right side it is; None where a call has no other one.

    Shapes tell it only where no two calls have the same.
    """
    free, order = list(range(len(right))), []
    for number, own in enumerate(left):
        found = [other for other in free if like(own, right[other])]
        if not found or not own or (like is _have_one_shape and len(found) > 1):
            return None
        order.append(number if number in found else found[0])
        free.remove(order[-1])
    return order


def _are_same(left: _Tensors, right: _Tensors) -> bool:
    return _have_one_shape(left, right) and all(map(same_values, left, right))


def _have_one_shape(left: _Tensors, right: _Tensors) -> bool:
    return [raw.get("shape") for raw in left] == [raw.get("shape") for raw in right]


def _inside(side: Calls, modules: Iterable[int]) -> dict[int, list[int]]:
    """Return by module call the forward calls in it, in their order."""
    positions = {side.keys[position].name: position for position in modules}
    found: dict[int, list[int]] = {position: [] for position in positions.values()}
    calls = ((number, key) for number, key in enumerate(side.keys) if key.phase == Phase.FORWARD.value)
    for number, key in calls:
        around = [] if key.recompute else parents_of(side.dump.construct, key.name)
        for name in positions.keys() & {*around}:
            found[positions[name]].append(number)
    return found


def _functions(
    partner: Mapping[int, int], settled: set[int], target: Calls, golden: Calls
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of function calls by the text of source that makes them, and by their inputs."""
    groups: dict[_Call, Pairs] = {}
    for i, j in sorted(partner.items()):
        key = target.keys[i]
        if i not in settled and not is_module(key) and key.parent not in OF_PARAMETERS:
            groups.setdefault((key.stem, key.parent), []).append((i, j))
    for group in groups.values():
        left, right = _by_line(target, [i for i, _ in group]), _by_line(golden, sorted(j for _, j in group))
        if {line: len(own) for line, own in left.items()} == {line: len(own) for line, own in right.items()}:
            for line, own in left.items():
                pairs = list(zip(own, right[line], strict=True))
                yield from _exchanged(pairs, target, golden, (_are_same, _have_one_shape)) or pairs


def _by_line(side: Calls, positions: Iterable[int]) -> dict[Hashable, list[int]]:
    lines: dict[Hashable, list[int]] = {}
    for position in positions:
        lines.setdefault(side.line(position), []).append(position)
    return lines
