"""By which factor the gradients of one run are larger than those of the other, as the layouts explain it.

Where each rank takes the mean over its own samples or tokens, gradients are as many times larger as there are ranks,
until they are averaged over the ranks; and so it is with micro batches, where what optimizers get shows that they are
divided later. The factor is looked for where gradients begin: at the first backward call that both sides have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from msprobe.compare.parallel.arrangement import MICRO, Coordinates, Kind, arranged, whole
from msprobe.compare.parallel.identity import Call, Key
from msprobe.compare.parallel.pieces import piece_of
from msprobe.core.naming import Phase

_CLOSE = 2e-2
_Calls = Mapping[Key, Mapping[Coordinates, Call]]


def gradient_scale(target: _Calls, golden: _Calls) -> float:
    """Return by how much the gradients of the target are larger: a quotient of numbers of ranks, or 1."""
    for key in target:
        if key.phase is not Phase.BACKWARD or key not in golden:
            continue
        ratio = _ratio(target[key], golden[key])
        if ratio is None:
            continue
        batches = [_micro_batches(side, key) if _is_divided_later(target, golden) else 1 for side in (target, golden)]
        sizes = product(_sizes(target[key], batches[0]), _sizes(golden[key], batches[1]))
        factors = [own / other for own, other in sizes]
        fitting = [factor for factor in factors if math.isclose(ratio, factor, rel_tol=_CLOSE)]
        return min(fitting, key=lambda factor: abs(factor - ratio), default=1.0)
    return 1.0


def _ratio(target: Mapping[Coordinates, Call], golden: Mapping[Coordinates, Call]) -> float | None:
    """Return the quotient of the norms of the gradient that goes into a call."""
    grids = []
    for calls in (target, golden):
        grid = {}
        for place, call in calls.items():
            given = call.body.get("input")
            piece = piece_of(given[0]) if isinstance(given, list) and given else None
            if piece is None:
                return None
            grid[place[:-1]] = piece
        grids.append(grid)
    pair = arranged(grids[0], grids[1], Kind.ACTIVATION)
    if pair is None:
        return None
    norms = [whole(grid, arrangement).norm for grid, arrangement in zip(grids, pair, strict=True)]
    if norms[0] is None or norms[1] is None or not norms[0].low or not norms[1].low:
        return None
    return norms[0].low / norms[1].low


def _sizes(calls: Mapping[Coordinates, Call], batches: int) -> Iterator[int]:
    """Yield the products of the numbers of ranks that have samples or tokens of their own, and of micro batches."""
    context, data = ({place[axis] for place in calls} for axis in (1, 2))
    ranks = {1, len(context), len(data), len(context) * len(data)}
    yield from {number * factor for number in ranks for factor in (1, batches)}


def _micro_batches(calls: _Calls, key: Key) -> int:
    """Return in how many micro batches a module is called."""
    alike = [own for own in calls if own._replace(micro=0) == key._replace(micro=0)]
    return max(len(alike), len({place[MICRO] for place in calls[key]}))


def _is_divided_later(target: _Calls, golden: _Calls) -> bool:
    """Return whether optimizers of both sides get gradients of one size."""
    for key in target:
        if key.function and key.phase is Phase.PARAMETERS_GRAD and key in golden:
            ratio = _ratio(*(_as_given(calls[key]) for calls in (target, golden)))
            return ratio is not None and math.isclose(ratio, 1.0, rel_tol=_CLOSE)
    return False


def _as_given(calls: Mapping[Coordinates, Call]) -> dict[Coordinates, Call]:
    """Return the calls of a gradient that an optimizer gets as calls that are given it."""
    return {at: replace(call, body={"input": list(call.body.values())[:1]}) for at, call in calls.items()}
