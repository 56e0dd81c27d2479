"""Strategies that pair calls by their names: exact, in sequence, and fuzzy.

``ExactMatch`` pairs entries of the same name. Calls are counted so that recomputation does not shift them: forward
entries that are not recomputed are counted per name without number, and a recomputed one pairs with a recomputed one.
Backward entries pair by number where both sides have the same numbers, and otherwise by order of occurrence, because
checkpointing numbers them differently. Parameter gradients pair by their full name.

``SequenceMatch`` does the same where the forward calls of both sides are the same list. Where they are not, an extra or
missing call does not shift the calls after it: forward calls are aligned by the longest common subsequence of (name
without number, enclosing module), weighted by what the calls hold. Module calls are aligned first, then the function
calls between each two of them, so that a changed operation never separates its module. Where the modules of the two
sides have hardly a name in common, function calls are aligned by name alone. Backward entries follow their forward
call. What comes in another order has no partner then. A module is what its path says, whenever it is called. A function
is the same call where the same text of source calls it equally often in the same module (a loop that runs elsewhere, a
statement that was moved): calls of the same values pair first, the rest in its order. A pass in evaluation that one
side makes more is not paired with a pass in training (``records.call_modes``).

``FuzzyMatch`` aligns the forward calls of each side as one sequence by name, whatever their numbers and wherever they
are in the model; backward entries follow. What is left over on both sides under the same name pairs in its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from msprobe.compare.alignment.backward_pairs import BackwardPairs, forward_calls
from msprobe.compare.alignment.call_scope import with_backward_scope, without_wrapper
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.records.call_modes import CallModes
from msprobe.compare.records.call_source import call_source
from msprobe.compare.records.entries import OF_PARAMETERS, OPTIMIZER, EntryKey, is_module
from msprobe.compare.records.source_lines import source_frame
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import is_tensor, leaves
from msprobe.trace.likeness import same_values

_Group = tuple[str, str, bool, str]
_Call = tuple[str, str]
"""Name without number, and enclosing module."""


class ExactMatch:
    """Pairs entries of the same name (see the module docstring)."""

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        if target.keys == golden.keys:
            return SAME
        return Alignment(exact_pairs(with_backward_scope(target.keys), with_backward_scope(golden.keys)))


def exact_pairs(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions:
    """Return the pairs of entries of the same name; the keys are those of ``with_backward_scope``."""
    by_number = _groups_of_same_numbers(target, golden)
    golden_index = {join_key: j for j, join_key in enumerate(_join_keys(golden, by_number))}
    pairs: Positions = []
    for i, join_key in enumerate(_join_keys(target, by_number)):
        j = golden_index.get(join_key)
        if j is not None:
            pairs.append((i, j))
    return pairs


def _groups_of_same_numbers(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> set[_Group]:
    """Return the groups of calls that have the same numbers on both sides."""
    left, right = _numbers_by_group(target), _numbers_by_group(golden)
    return {group for group, numbers in left.items() if right.get(group) == numbers}


def _numbers_by_group(keys: Sequence[EntryKey]) -> dict[_Group, set[int | None]]:
    numbers: dict[_Group, set[int | None]] = {}
    for key in keys:
        numbers.setdefault(_group(key), set()).add(key.call)
    return numbers


def _group(key: EntryKey) -> _Group:
    """Return the calls among which a call is counted: of its name, and for a recomputed one also of its module, because
    the two sides may recompute different parts of the model."""
    return key.stem, key.phase, key.recompute, key.parent if key.recompute else ""


def _join_keys(keys: Sequence[EntryKey], by_number: set[_Group]) -> list[Hashable]:
    """Return what must be equal in a pair: the group of a call with its number, or with its count in the group."""
    recomputed = {(key.stem, key.phase) for key in keys if key.recompute}
    counts: dict[_Group, int] = {}
    join_keys: list[Hashable] = []
    for key in keys:
        group = _group(key)
        index: int | None = key.call
        if group not in by_number and (key.phase == "backward" or key.recompute or (key.stem, key.phase) in recomputed):
            index = counts.get(group, 0)
            counts[group] = index + 1
        join_keys.append((group, index))
    return join_keys


class SequenceMatch:
    """Pairs entries of the same name where an extra or missing call shifts nothing (see the module docstring)."""

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        return SAME if target.keys == golden.keys else Alignment(sequence_pairs(target, golden))


def sequence_pairs(target: Side, golden: Side) -> Positions:
    """Return the pairs of entries of two sides that may make different calls."""
    sides = without_wrapper(with_backward_scope(target.keys), with_backward_scope(golden.keys))
    target, golden = Side(target.dump, sides[0]), Side(golden.dump, sides[1])
    exact = exact_pairs(target.keys, golden.keys)
    left, right = forward_calls(target.keys), forward_calls(golden.keys)
    if _names_and_parents(target, left) == _names_and_parents(golden, right):
        if {i for i, _ in exact}.issuperset(left):
            return exact
        # calls were left out, so that numbers differ (requests of a server)
        return BackwardPairs(target.keys, golden.keys, list(zip(left, right, strict=True))).pairs(exact)
    target, golden = with_modes(target, golden)
    forward = _forward_pairs(target, golden, left, right)
    names = _names(target, golden, left, right)
    if 2 * len(forward) < (Counter(names[0]) & Counter(names[1])).total():
        forward = _forward_pairs_by_name(target, golden, left, right)
    return BackwardPairs(target.keys, golden.keys, forward).pairs(exact)


def with_modes(target: Side, golden: Side) -> tuple[Side, Side]:
    """Return both sides with the mode in the parents of the calls of which one side makes more in one mode."""
    modes = [CallModes(side.keys, side.dump.data, side.dump.construct) for side in (target, golden)]
    apart = modes[0].apart(modes[1])
    if not apart:
        return target, golden
    left, right = (
        Side(side.dump, [_with_mode(key, own) if (key.stem, key.parent) in apart else key for key in side.keys])
        for side, own in zip((target, golden), modes, strict=True)
    )
    return left, right


def _with_mode(key: EntryKey, modes: CallModes) -> EntryKey:
    own = key.phase == Phase.FORWARD.value and not key.recompute
    return key._replace(parent=f"{key.parent} in {modes.mode(key)}") if own else key


def _forward_pairs(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    """Return the pairs of forward calls at these positions, ascending."""
    from msprobe.compare.alignment.sequence_alignment import align_sequences  # the same calls on both sides need none

    def align(left: list[int], right: list[int]) -> Positions:
        keys = _names_and_parents(target, left), _names_and_parents(golden, right)
        return align_sequences(target, golden, (left, right), keys)

    anchors = align(_module_calls(target, left), _module_calls(golden, right))
    left_segments = _segments(target, left, {i for i, _ in anchors})
    right_segments = _segments(golden, right, {j for _, j in anchors})
    pairs: Positions = []
    for number, segments in enumerate(zip(left_segments, right_segments, strict=True)):
        pairs += align(*segments) + anchors[number : number + 1]
    return sorted([*pairs, *_pairs_in_another_order(pairs, target, golden)])


def _pairs_in_another_order(pairs: Positions, target: Side, golden: Side) -> Positions:
    """Return pairs of forward calls that are in no pair yet (see the module docstring); the order is free.

    A module that comes in another order takes the functions in it along. Calls of an optimizer belong to parameters,
    and pair by shapes and values elsewhere.
    """
    rest_left, rest_right = _rest(target, {i for i, _ in pairs}), _rest(golden, {j for _, j in pairs})
    moved = {stem for stem, parent in rest_left if is_module_name(stem) and (stem, parent) in rest_right}
    further: Positions = []
    for call, positions in rest_left.items():
        partners, (stem, parent) = rest_right.get(call, []), call
        if stem in moved or parent in moved:
            further += zip(positions, partners, strict=True) if len(partners) == len(positions) else ()
        elif partners and not is_module_name(stem) and parent not in OF_PARAMETERS:
            further += _pairs_of_lines(target, golden, positions, partners)
    return further


def _rest(side: Side, paired: set[int]) -> dict[_Call, list[int]]:
    """Return the positions of the forward calls that have no partner, by name and enclosing module."""
    rest: dict[_Call, list[int]] = {}
    for position in forward_calls(side.keys):
        if position not in paired:
            key = side.keys[position]
            rest.setdefault((key.stem, key.parent), []).append(position)
    return rest


def _pairs_of_lines(target: Side, golden: Side, left: Sequence[int], right: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of calls of one function in one module that the same text of source makes equally often."""
    lines, other_lines = _by_line(target, left), _by_line(golden, right)
    for line, positions in lines.items():
        partners = list(other_lines.get(line, ()))
        if len(partners) != len(positions):
            continue
        waiting = []
        for i in positions:
            j = next((j for j in partners if _have_same_values(target, golden, i, j)), None)
            if j is None:
                waiting.append(i)
            else:
                partners.remove(j)
                yield i, j
        yield from zip(waiting, partners, strict=True)


def _by_line(side: Side, positions: Sequence[int]) -> dict[Hashable, list[int]]:
    """Return the positions by function and text of the source line that makes the call, as far as it is recorded."""
    lines: dict[Hashable, list[int]] = {}
    for position in positions:
        frame = source_frame(call_source(side.dump, side.keys[position].name).stack)
        if frame is not None and frame.code:
            lines.setdefault((frame.function, frame.code), []).append(position)
    return lines


def _have_same_values(target: Side, golden: Side, i: int, j: int) -> bool:
    left, right = _tensors(target, i), _tensors(golden, j)
    return len(left) == len(right) and all(map(same_values, left, right))


def _tensors(side: Side, position: int) -> list[Mapping[str, Any]]:
    name = side.keys[position].name
    return [leaf.raw for leaf in leaves(name, side.dump.data[name]) if is_tensor(leaf.raw)]


def _names_and_parents(side: Side, positions: Sequence[int]) -> list[Hashable]:
    """Return what must be equal in a pair of calls; those of an optimizer belong to parameters, which have shapes."""
    keys = [side.keys[position] for position in positions]
    return [
        (key.stem, key.parent) if key.parent != OPTIMIZER else (key.stem, key.parent, _shapes(side, key.name))
        for key in keys
    ]


def _shapes(side: Side, name: str) -> str:
    tensors = (leaf.raw for leaf in leaves(name, side.dump.data[name]) if is_tensor(leaf.raw))
    return str([raw["shape"] for raw in tensors])


def _module_calls(side: Side, positions: list[int]) -> list[int]:
    return [position for position in positions if is_module(side.keys[position])]


def _segments(side: Side, positions: list[int], anchors: set[int]) -> list[list[int]]:
    """Return the positions of function calls before, between and after the anchors."""
    segments: list[list[int]] = [[]]
    for position in positions:
        if position in anchors:
            segments.append([])
        elif not is_module(side.keys[position]):
            segments[-1].append(position)
    return segments


def _names(target: Side, golden: Side, left: list[int], right: list[int]) -> list[list[Hashable]]:
    """Return what must be equal in a pair of calls wherever they are; those of an optimizer are no others, where both
    sides say which they are."""
    sides = [[side.keys[position] for position in own] for side, own in ((target, left), (golden, right))]
    known = all(any(key.parent in OF_PARAMETERS for key in keys) for keys in sides)
    return [[(key.stem, key.parent if known and key.parent in OF_PARAMETERS else "") for key in keys] for keys in sides]


def _forward_pairs_by_name(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    from msprobe.compare.alignment.sequence_alignment import align_sequences

    names = _names(target, golden, left, right)
    return align_sequences(target, golden, (left, right), (names[0], names[1]))


class FuzzyMatch:
    """Pairs calls by name and order, wherever they are in the model (see the module docstring)."""

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries."""
        if target.keys == golden.keys:
            return SAME
        forward = _forward_pairs_by_name(target, golden, forward_calls(target.keys), forward_calls(golden.keys))
        pairs = BackwardPairs(target.keys, golden.keys, forward).pairs([])
        return Alignment(pairs + _pairs_of_the_rest(pairs, target, golden))


_Name = tuple[str, str, bool]


def _pairs_of_the_rest(pairs: Positions, target: Side, golden: Side) -> Positions:
    """Return pairs of equal names, in their order, of the entries that are in no pair yet."""
    paired_left, paired_right = {i for i, _ in pairs}, {j for _, j in pairs}
    by_name: dict[_Name, list[int]] = {}
    for j in range(len(golden.keys) - 1, -1, -1):
        if j not in paired_right:
            by_name.setdefault(_name(golden.keys[j]), []).append(j)
    rest = ((i, _name(key)) for i, key in enumerate(target.keys) if i not in paired_left)
    return [(i, by_name[name].pop()) for i, name in rest if by_name.get(name)]


def _name(key: EntryKey) -> _Name:
    return key.stem, key.phase, key.recompute
