"""From measured differences to verdicts: the policy ``default``.

A row passes, or is an error where the difference arises in this call or no call before it differs, or a warning where
the call was already given different inputs. A result of which nothing is known that it was made of (a gradient without
a backward call) is judged like an input. A result may differ by the tolerance of its dtype (``tolerance``) plus
``AMPLIFICATION`` times what its own inputs differ; an input by the tolerance plus ``CARRIED`` times the noise that
earlier calls were found to have. Statistics show the inputs' largest element, mean and norm; what mean and norm tell of
single elements (``of_single_elements``) is allowed in the elements of the result as well.
NaN or Inf on one side, a shape, a dtype, an argument and a missing value are never within a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.tolerance import (
    LOOSE,
    NOTHING_ALLOWED,
    STRICT,
    Factors,
    Tolerances,
    of_single_elements,
    tolerances,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AMPLIFICATION = 16.0
CARRIED = 4.0
NOISE_CAP = 1e-3
# Optimizers that divide by the gradient's size (Adam) turn rounding noise of vanishing gradients into real updates.
UPDATED = 3e-4


class Level(IntEnum):
    """How bad a row is."""

    PASS = 0
    WARNING = 1
    ERROR = 2


class Kind(IntEnum):
    """What is wrong with a row; higher is told first. The text of a kind is its name in lower case."""

    NONE = 0
    UNINITIALISED = 1
    UNCHECKED = 2
    VALUE = 3
    ARGUMENT = 4
    DTYPE = 5
    SHAPE = 6
    NON_FINITE = 7
    MISSING_IN_GOLDEN = 8
    MISSING_IN_TARGET = 9


class Role(IntEnum):
    """What a row is to its call."""

    INPUT = 0
    PARAMETER = 1
    RESULT = 2


@dataclass(slots=True)
class Measured:
    """One value per row. Differences are relative to the scale of the tensor (dimensionless), infinite where
    undefined.

    ``projection`` is that of the order-sensitive statistic, relative to the largest element times the root of the
    number of elements, and judged like an element.
    ``kind`` is what was found without any tolerance; ``row_starts`` has one more item than there are entries;
    ``depends`` names for each entry the entry whose noise it inherits beside its inputs (its forward call), or -1.
    """

    role: Ints
    kind: Ints
    element: Floats
    mean: Floats
    norm: Floats
    projection: Floats
    roundoff: Floats
    numel: Floats
    reduction: Floats
    rounded: Bools
    whole: Bools
    row_starts: Ints
    depends: Ints

    def sliced(self, rows: Ints | slice) -> Measured:
        """Return the measurements of some rows, as those of one entry."""
        by_row = {name: getattr(self, name)[rows] for name in self.__slots__[: self.__slots__.index("row_starts")]}
        count = len(by_row["role"])
        return Measured(**by_row, row_starts=np.array([0, count]), depends=np.full(1, -1))

    @property
    def worst(self) -> Floats:
        """The largest of the four differences, per row; a new array at each access."""
        return np.maximum(np.maximum(self.element, self.mean), np.maximum(self.norm, self.projection))


@dataclass(slots=True)
class Judged:
    """``level`` and ``kind`` per row; ``noise`` is the largest difference that passed, for the step after.

    ``times`` is the difference of a row in units of what it was allowed, ``tolerance`` what it was allowed, relative to
    the scale of its tensor: of the part (largest element, mean or norm) that differs most in these units. Both are
    dimensionless, and mean nothing for kinds that no tolerance can excuse. Where nothing is allowed (integers),
    ``tolerance`` is 0 and ``times`` infinite.
    """

    level: Ints
    kind: Ints
    noise: float
    times: Floats
    tolerance: Floats

    def sliced(self, rows: Ints | slice) -> Judged:
        """Return the verdicts of some rows."""
        return Judged(self.level[rows], self.kind[rows], self.noise, self.times[rows], self.tolerance[rows])


@dataclass(slots=True)
class NoiseFloor:
    """Learned spreads per row, one value per part; NaN where none is known. A difference up to ``limit`` times its
    spread is normal, and so is the rounding of one operation.
    """

    element: Floats
    mean: Floats
    norm: Floats
    limit: float = 4.0


@dataclass(slots=True)
class _Weighed:
    """Differences in units of what is allowed (above 1 is too much), and what is allowed of the part that decides."""

    excess: Floats
    allowed: Floats

    def where(self, condition: Bools, other: _Weighed) -> _Weighed:
        """These values where the condition holds, those of ``other`` elsewhere."""
        return _Weighed(
            np.where(condition, self.excess, other.excess), np.where(condition, self.allowed, other.allowed)
        )

    def told(self) -> tuple[Floats, Floats]:
        """``times`` and ``tolerance`` of ``Judged``."""
        nothing = self.allowed <= NOTHING_ALLOWED
        times = np.where(nothing & (self.excess > 0.0), np.inf, self.excess)
        return times, np.where(nothing, 0.0, self.allowed)


@dataclass(slots=True)
class _Slack:
    """What rows may differ because of what their call was given: by what is seen in every part, and what is
    ``unseen`` of single elements, which averages out in mean and norm."""

    seen: Floats
    unseen: Floats

    @classmethod
    def of(cls, seen: Floats) -> _Slack:
        return cls(seen, np.zeros_like(seen))


def judge(measured: Measured, noise: float = 0.0, floor: NoiseFloor | None = None) -> Judged:
    """Judge all rows of one dump pair; ``noise`` is what the step before was found to carry (dimensionless).

    Where ``floor`` knows the spread of reruns, it decides instead of the tolerances of the number format.
    """
    given = measured.role != Role.RESULT
    hard = measured.kind >= Kind.ARGUMENT
    worst = np.where(hard, np.inf, measured.worst)
    entry = np.repeat(np.arange(measured.row_starts.size - 1), np.diff(measured.row_starts))
    inherited = _inherited(measured, given, worst)
    unseen = _inherited(measured, given, _unseen(measured))
    strict, loose = _limits(measured, STRICT), _limits(measured, LOOSE)
    exact = (inherited == 0.0)[entry] & (noise == 0.0)
    slack = _Slack(AMPLIFICATION * inherited[entry], AMPLIFICATION * unseen[entry])
    learned = _against(floor, measured, strict)
    alone = learned(_weigh(measured, loose, _Slack.of(np.zeros_like(worst))))
    amplified = learned(_weigh(measured, strict, slack).where(exact, _weigh(measured, loose, slack)))
    clean = ~_any(given & ((alone.excess > 1.0) | hard), measured.row_starts)
    quiet = np.where(given, alone.excess <= 1.0, amplified.excess <= 1.0) & ~hard & clean[entry]
    before = _noise_before(np.where(quiet, worst, 0.0), measured.row_starts, noise)
    slack_given = np.maximum(CARRIED * before[entry], UPDATED if noise > 0.0 else 0.0)
    carried = learned(_weigh(measured, loose, _Slack.of(slack_given)))
    differs_given = given & (hard | (carried.excess > 1.0))
    flows = _flows(measured, differs_given, hard | (~given & (amplified.excess > 1.0)))
    unknown = ~(_any(given, measured.row_starts) | (measured.depends >= 0))[entry] & (before[entry] > 0.0)
    weighed = carried.where(given | unknown, alone.where(flows[entry], amplified))
    beyond = np.where(given, differs_given, weighed.excess > 1.0)
    soft = np.where(beyond, Kind.VALUE, np.minimum(measured.kind, Kind.UNCHECKED))
    kind = np.where(hard, measured.kind, soft)
    last = float(max(before[-1] if before.size else noise, np.where(quiet, worst, 0.0).max(initial=0.0)))
    level = _levels(measured, kind, flows[entry])
    times, tolerance = weighed.told()
    return Judged(level, kind, min(last, NOISE_CAP), times, tolerance)


def _levels(measured: Measured, kind: Ints, flows: Bools) -> Ints:
    """Errors are what arises here or cannot be explained by any input; what flows through is a warning."""
    differs = kind > Kind.UNCHECKED
    own = (measured.role == Role.PARAMETER) | ((measured.role == Role.RESULT) & ~flows) | (kind >= Kind.ARGUMENT)
    level = np.where(differs, np.where(own, Level.ERROR, Level.WARNING), Level.PASS)
    if differs.any():
        _make_error(level, measured, int(differs.argmax()))
    return np.where((kind == Kind.UNCHECKED) | (kind == Kind.UNINITIALISED), Level.WARNING, level)


def _make_error(level: Ints, measured: Measured, first: int) -> None:
    """What differs first, in row ``first``, follows from nothing before it: what its call is given is an error."""
    entry = int(np.searchsorted(measured.row_starts, first, side="right")) - 1
    rows = slice(measured.row_starts[entry], measured.row_starts[entry + 1])
    if level[rows].max() == Level.WARNING:
        given = (level[rows] == Level.WARNING) & (measured.role[rows] != Role.RESULT)
        level[rows][given if given.any() else level[rows] == Level.WARNING] = Level.ERROR


def _flows(measured: Measured, differs_given: Bools, differs_result: Bools) -> Bools:
    """Per entry: what it was given differs, or the forward call it depends on has a difference of any kind."""
    own = _any(differs_given, measured.row_starts)
    everything = own | _any(differs_result, measured.row_starts)
    known = measured.depends >= 0
    return own | (known & everything[np.where(known, measured.depends, 0)]) if own.size else own


def _limits(measured: Measured, factors: Factors) -> Tolerances:
    limits = tolerances(measured.roundoff, measured.numel, measured.reduction, factors)
    own = 2.0 * measured.roundoff
    average = np.where(measured.rounded, np.maximum(limits.average, own), limits.average)
    return Tolerances(limits.element, np.where(measured.whole, limits.element, average))


def _weigh(measured: Measured, limits: Tolerances, slack: _Slack) -> _Weighed:
    average = limits.average + np.maximum(slack.seen, slack.unseen / np.sqrt(np.maximum(measured.numel, 1.0)))
    return _weighed(measured, limits.element + np.maximum(slack.seen, slack.unseen), average, average)


def _weighed(measured: Measured, element: Floats, mean: Floats, norm: Floats) -> _Weighed:
    with np.errstate(invalid="ignore"):
        elements = np.maximum(measured.element, measured.projection)
        parts = (elements / element, measured.mean / mean, measured.norm / norm)
    first, second, third = (np.nan_to_num(part, nan=0.0, posinf=np.inf) for part in parts)
    excess = np.maximum(np.maximum(first, second), third)
    return _Weighed(excess, np.where(first == excess, element, np.where(second == excess, mean, norm)))


def _against(floor: NoiseFloor | None, measured: Measured, strict: Tolerances) -> Callable[[_Weighed], _Weighed]:
    """Replaces what was weighed by tolerances where a spread is known."""
    if floor is None:
        return lambda weighed: weighed
    limits = (strict.element, strict.average, strict.average)
    spreads = (floor.element, floor.mean, floor.norm)
    allowed = [np.maximum(floor.limit * spread, limit) for spread, limit in zip(spreads, limits, strict=True)]
    known = np.isfinite(floor.element)
    learned = _weighed(measured, *(np.where(known, values, 1.0) for values in allowed))
    return lambda weighed: learned.where(known, weighed)


def _unseen(measured: Measured) -> Floats:
    """How far single elements of a row may be apart beyond what its statistics show; whole tensors show all."""
    single = of_single_elements(measured.mean, measured.norm, measured.numel)
    return np.minimum(np.where(measured.whole, 0.0, single), NOISE_CAP)


def _inherited(measured: Measured, given: Bools, worst: Floats) -> Floats:
    """Per entry: how much its inputs differ, and those and the results of the call it depends on."""
    carried = _per_entry(np.where(given, worst, 0.0), measured.row_starts)
    if not carried.size:
        return carried
    everything = np.maximum(carried, _per_entry(worst, measured.row_starts))
    known = measured.depends >= 0
    return np.maximum(carried, np.where(known, everything[np.where(known, measured.depends, 0)], 0.0))


def _noise_before(quiet: Floats, starts: Ints, noise: float) -> Floats:
    """Per entry: the largest difference that passed in any earlier entry, capped."""
    seen = np.maximum.accumulate(np.concatenate(([noise], _per_entry(quiet, starts))))
    return np.minimum(seen[:-1], NOISE_CAP)


def _any(flags: Bools, starts: Ints) -> Bools:
    return _per_entry(flags.astype(np.float64), starts) > 0.0


def _per_entry(values: Floats, starts: Ints) -> Floats:
    """The largest value among the rows of each entry; 0 for an entry without rows."""
    if starts.size <= 1:
        return np.zeros(0)
    padded = np.concatenate((values, [0.0]))
    result = np.maximum.reduceat(padded, starts[:-1])
    return np.asarray(np.where(np.diff(starts) > 0, result, 0.0))
