"""What follows from differences that a user has accepted.

``follow`` looks at the rows that differ from the first accepted difference on. A row follows from accepted ones where
it differs by no more than they may have become there:

- a result: ``AMPLIFICATION`` times the difference of its inputs, of its forward call, or of calls inside of its module;
- an input that is a result of an earlier call: it was judged there;
- any other input: ``CARRIED`` times the largest difference before it, because what made it is not recorded;
- a parameter: the same of earlier steps, because updates alone change it.

Where that is more than ``WIDEST`` of the scale of a tensor, almost any fault would be within it. Such a row is hidden:
neither a difference of its own nor shown to be none. All other rows keep their kind, as does another argument, which no
tensor makes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from msprobe.numerics.kinds import Role, RowKind
from msprobe.numerics.tolerance import of_single_elements
from msprobe.numerics.verdict import (
    AMPLIFICATION,
    CARRIED,
    NOISIEST,
    UPDATED,
    Bools,
    Floats,
    Ints,
    Measured,
    beyond_rounding,
    from_sources,
)

WIDEST = 0.25
WIDEST_PARAMETER = 10.0 * UPDATED


class Followers(NamedTuple):
    """The kinds of all rows as accepted differences leave them.

    Args:
        kind: a ``RowKind`` per row.
        spread: the largest difference so far that may follow from accepted ones (dimensionless), for the next step.
    """

    kind: Ints
    spread: float


def follow(measured: Measured, kind: Ints, accepted: Bools, first: int, before: float = 0.0) -> Followers:
    """Return the kinds of rows once some of them are accepted.

    Args:
        measured: the differences of all rows.
        kind: a ``RowKind`` per row, as judged.
        accepted: the rows that are accepted.
        first: the first entry with an accepted difference; the number of entries where there is none in this step.
        before: ``spread`` of the step before.
    """
    entry = np.repeat(np.arange(measured.row_starts.size - 1), np.diff(measured.row_starts))
    reached = np.full(entry.shape, before > 0.0) | (entry >= first)
    worst = _spreading(measured, kind, reached)
    earlier = _before(measured, worst, before)[entry]
    slack, widest = _slack(measured, worst, earlier, before, entry)
    unseen = AMPLIFICATION * from_sources(measured, _unseen(measured, reached))[entry]
    open_rows = reached & ~accepted & (kind > RowKind.UNCHECKED) & (kind < RowKind.MISSING_IN_GOLDEN)
    open_rows &= kind != RowKind.ARGUMENT
    hard = kind > RowKind.VALUE
    # What no tolerance excuses follows only from something of the same sort.
    small = open_rows & ~hard & ~beyond_rounding(measured, np.minimum(slack, widest), np.minimum(unseen, widest))
    large = open_rows & np.where(hard, np.isinf(slack), ~beyond_rounding(measured, slack, unseen))
    result = np.where(accepted, RowKind.ACCEPTED, kind)
    result = np.where(large, RowKind.HIDDEN_BY_ACCEPTED, result)
    result = np.where(small & (slack < np.inf), RowKind.FOLLOWS_ACCEPTED, result)
    _take_over(measured, result, open_rows)
    return Followers(result, float(max(before, worst.max(initial=0.0))))


def _spreading(measured: Measured, kind: Ints, reached: Bools) -> Floats:
    """Return how far each row is off from the first accepted difference on, infinite where no number says it."""
    hard = (kind > RowKind.ARGUMENT) & (kind < RowKind.MISSING_IN_GOLDEN)
    worst = np.where(hard, np.inf, measured.worst)
    told = (kind != RowKind.ARGUMENT) & (kind < RowKind.MISSING_IN_GOLDEN)
    return np.where(reached & told, np.nan_to_num(worst, nan=0.0, posinf=np.inf), 0.0)


def _before(measured: Measured, worst: Floats, before: float) -> Floats:
    """Return per entry the largest value of ``worst`` in the entries before it."""
    starts = measured.row_starts
    padded = np.concatenate((worst, [0.0]))
    own = (
        np.where(np.diff(starts) > 0, np.maximum.reduceat(padded, starts[:-1]), 0.0) if starts.size > 1 else padded[:0]
    )
    return np.asarray(np.maximum.accumulate(np.concatenate(([before], own)))[:-1])


def _slack(measured: Measured, worst: Floats, earlier: Floats, before: float, entry: Ints) -> tuple[Floats, Floats]:
    """Return how far each row may be off because of what came before, and up to which difference that is believed."""
    is_parameter, is_result = measured.role == Role.PARAMETER, measured.role == Role.RESULT
    has_source = np.zeros(measured.row_starts.size - 1, np.bool_)
    has_source[entry[~is_result]] = True
    has_source |= measured.depends >= 0
    own = np.where(is_parameter, CARRIED * before, CARRIED * earlier)
    results = np.maximum(AMPLIFICATION * from_sources(measured, worst)[entry], CARRIED * before)
    slack = np.where(is_result & has_source[entry], results, own)
    return slack, np.where(is_parameter, WIDEST_PARAMETER, WIDEST)


def _unseen(measured: Measured, reached: Bools) -> Floats:
    """Return how far single elements may differ beyond what statistics show; whole tensors show all."""
    single = np.nan_to_num(of_single_elements(measured.mean, measured.norm, measured.numel), posinf=NOISIEST)
    return np.where(reached & ~measured.whole, np.minimum(single, NOISIEST), 0.0)


def _take_over(measured: Measured, kind: Ints, open_rows: Bools) -> None:
    """Give inputs that are results of earlier calls the kind of the result; ascending, so that it is known."""
    origin = measured.origin
    for row in (open_rows & (origin >= 0) & (measured.role == Role.INPUT)).nonzero()[0].tolist():
        made = kind[origin[row]]
        if made in (RowKind.ACCEPTED, RowKind.FOLLOWS_ACCEPTED, RowKind.NONE):
            kind[row] = RowKind.FOLLOWS_ACCEPTED
        elif made > RowKind.FOLLOWS_ACCEPTED:
            kind[row] = RowKind.HIDDEN_BY_ACCEPTED if made == RowKind.HIDDEN_BY_ACCEPTED else kind[row]
