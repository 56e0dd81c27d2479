"""Exact matching: the same name, with calls counted so that recomputation does not shift them.

Forward entries that are not recomputed are counted per name without number; a recomputed one pairs with a
recomputed one. Backward entries pair by number where both sides have the same numbers, otherwise by order of
occurrence (checkpointing numbers them differently). Parameter gradients pair by their full name.

Sequence matching: like exact matching, but an extra or missing call does not shift the calls after it.

Where the forward calls of both sides are not the same list, they are aligned (see ``changed_calls``), and backward
entries follow their forward call.

Fuzzy matching: calls pair by name and order, whatever their numbers and wherever they are in the model.

The forward calls of each side are aligned as one sequence, so that a surplus call stays alone, and backward entries
follow. What is then left over on both sides under the same name pairs in its order. Every entry keeps its row.

Pairs of entries of two sides that do not make the same calls.

Forward calls are aligned by the longest common subsequence of (name without number, enclosing module), weighed by what
the calls hold: the module calls first, then the API calls between each two of them, so that a changed operation never
tears its module apart. Where the modules of the two sides have hardly a name in common, the API calls are aligned by
name alone. Backward entries then follow their forward call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from msprobe.compare.alignment.backward_pairs import BackwardPairs, forward_calls
from msprobe.compare.alignment.call_scope import is_module, with_backward_scope
from msprobe.compare.alignment.protocol import SAME, Alignment, Positions, Side
from msprobe.compare.alignment.sequence_alignment import align_sequences
from msprobe.compare.records.entries import EntryKey

_Group = tuple[str, str, bool, str]


class ExactMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        return Alignment(exact_pairs(with_backward_scope(target.keys), with_backward_scope(golden.keys)))


def exact_pairs(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> Positions:
    """Pairs of positions of keys that ``placed`` has seen."""
    by_number = _same_numbers(target, golden)
    golden_at = {key: j for j, key in enumerate(_join_keys(golden, by_number))}
    found: Positions = []
    for i, key in enumerate(_join_keys(target, by_number)):
        j = golden_at.get(key)
        if j is not None:
            found.append((i, j))
    return found


def _group(key: EntryKey) -> _Group:
    """Recomputed calls count per module: the two sides may recompute different parts of the model."""
    return key.stem, key.phase, key.recompute, key.parent if key.recompute else ""


def _same_numbers(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> set[_Group]:
    """The groups of calls that carry the same numbers on both sides."""
    left, right = _numbers(target), _numbers(golden)
    return {group for group, numbers in left.items() if right.get(group) == numbers}


def _numbers(keys: Sequence[EntryKey]) -> dict[_Group, set[int | None]]:
    numbers: dict[_Group, set[int | None]] = {}
    for key in keys:
        numbers.setdefault(_group(key), set()).add(key.call)
    return numbers


def _join_keys(keys: Sequence[EntryKey], by_number: set[_Group]) -> list[Hashable]:
    recomputed = {(key.stem, key.phase) for key in keys if key.recompute}
    counted: dict[_Group, int] = {}
    joined: list[Hashable] = []
    for key in keys:
        group = _group(key)
        index: int | None = key.call
        if group not in by_number and (key.phase == "backward" or key.recompute or (key.stem, key.phase) in recomputed):
            index = counted.get(group, 0)
            counted[group] = index + 1
        joined.append((group, index))
    return joined


class SequenceMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME

        return Alignment(changed_pairs(target, golden))


_Name = tuple[str, str, bool]


class FuzzyMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        places = forward_calls(target.keys), forward_calls(golden.keys)
        stems = [target.keys[i].stem for i in places[0]], [golden.keys[j].stem for j in places[1]]
        forward = align_sequences(target, golden, places, stems)
        found = BackwardPairs(target.keys, golden.keys, forward).pairs([])
        return Alignment(found + _left_over(found, target, golden))


def _name(key: EntryKey) -> _Name:
    return key.stem, key.phase, key.recompute


def _left_over(pairs: Positions, target: Side, golden: Side) -> Positions:
    used = {i for i, _ in pairs}, {j for _, j in pairs}
    waiting: dict[_Name, list[int]] = {}
    for j in range(len(golden.keys) - 1, -1, -1):
        if j not in used[1]:
            waiting.setdefault(_name(golden.keys[j]), []).append(j)
    lone = ((i, _name(key)) for i, key in enumerate(target.keys) if i not in used[0])
    return [(i, waiting[name].pop()) for i, name in lone if waiting.get(name)]


def changed_pairs(target: Side, golden: Side) -> Positions:
    """Pairs of positions (target, golden)."""
    target, golden = (
        Side(target.dump, with_backward_scope(target.keys)),
        Side(golden.dump, with_backward_scope(golden.keys)),
    )
    exact = exact_pairs(target.keys, golden.keys)
    left, right = forward_calls(target.keys), forward_calls(golden.keys)
    if _keys(target, left) == _keys(golden, right):
        return exact
    forward = _forward_pairs(target, golden, left, right)
    if 2 * len(forward) < _alike(target, golden, left, right):
        forward = _by_name(target, golden, left, right)
    return BackwardPairs(target.keys, golden.keys, forward).pairs(exact)


def _forward_pairs(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    """Pairs of positions of forward calls, ascending."""

    def common(ours: list[int], theirs: list[int]) -> Positions:
        return align_sequences(target, golden, (ours, theirs), (_keys(target, ours), _keys(golden, theirs)))

    anchors = common(_modules(target, left), _modules(golden, right))
    ours = _segments(target, left, {i for i, _ in anchors})
    theirs = _segments(golden, right, {j for _, j in anchors})
    pairs: Positions = []
    for number, (mine, others) in enumerate(zip(ours, theirs, strict=True)):
        pairs += common(mine, others) + anchors[number : number + 1]
    return pairs


def _alike(target: Side, golden: Side, left: list[int], right: list[int]) -> int:
    """How many calls have a partner of the same name, as far as numbers go."""
    ours, theirs = (Counter(side.keys[i].stem for i in at) for side, at in ((target, left), (golden, right)))
    return sum((ours & theirs).values())


def _by_name(target: Side, golden: Side, left: list[int], right: list[int]) -> Positions:
    stems = [target.keys[i].stem for i in left], [golden.keys[j].stem for j in right]
    return align_sequences(target, golden, (left, right), stems)


def _modules(side: Side, positions: list[int]) -> list[int]:
    return [position for position in positions if is_module(side.keys[position])]


def _segments(side: Side, positions: list[int], anchors: set[int]) -> list[list[int]]:
    """The API calls before, between and after the anchors."""
    segments: list[list[int]] = [[]]
    for position in positions:
        if position in anchors:
            segments.append([])
        elif not is_module(side.keys[position]):
            segments[-1].append(position)
    return segments


def _keys(side: Side, positions: Sequence[int]) -> list[tuple[str, str]]:
    return [(side.keys[position].stem, side.keys[position].parent) for position in positions]
