"""Pairs of entries of two sides that do not make the same calls.

Forward calls are aligned by the longest common subsequence of (name without number, enclosing module), weighed by what
the calls hold: the module calls first, then the API calls between each two of them, so that a changed operation never
tears its module apart. Where the modules of the two sides have hardly a name in common, the API calls are aligned by
name alone. Backward entries then follow their forward call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msprobe.compare.alignment.drift import align_sequences
from msprobe.compare.alignment.exact import exact_pairs
from msprobe.compare.alignment.followed import BackwardPairs, forward_calls
from msprobe.compare.alignment.in_backward import is_module, with_backward_scope
from msprobe.compare.alignment.protocol import Positions, Side


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
