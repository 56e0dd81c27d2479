"""From measured differences to verdicts: the policy ``default``.

A row passes, is an error, or is a warning. It is an error when the difference arises in this call, or when no call
before it differs. It is a warning when the inputs of the call differ already. A result whose inputs are not recorded (a
gradient without a backward call) is judged like an input.

A result may differ by the tolerance of its dtype (``tolerance``) plus ``AMPLIFICATION`` times the difference of its
inputs. An input may differ by the tolerance plus ``CARRIED`` times the noise of earlier calls. Statistics contain the
largest element, mean and norm of the inputs; the difference of single elements that follows from mean and norm
(``of_single_elements``) is allowed in the elements of the result as well. NaN or Inf on one side, a different shape,
dtype or argument, and a missing value are never within a tolerance.

A difference of a statistic counts as one of element, mean or norm, as the table of statistics says (``ToleranceOf``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.kinds import Level, Role, RowKind
from msprobe.numerics.tolerance import (
    FLOAT32_ROUNDOFF,
    LOOSE,
    NOTHING_ALLOWED,
    STRICT,
    Factors,
    Tolerances,
    of_single_elements,
    tolerances,
)

if TYPE_CHECKING:
    from msprobe.numerics.noise_floor import NoiseFloor

__all__ = ["Level", "Role", "RowKind"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AMPLIFICATION = 16.0
CARRIED = 4.0
NOISE_CAP = 1e-3
NOISY_ROUNDINGS = 3.0  # of the coarsest dtype so far: the noise that it may make, where that is more than NOISE_CAP
NOISIEST = 0.03
OTHER_FORMATS = 64.0, 0.125  # the same two where the user says that the number formats of both sides differ
# Optimizers that divide by the size of the gradient (Adam) turn rounding noise of tiny gradients into real updates.
UPDATED = 3e-4


@dataclass(slots=True)
class Measured:
    """The differences of all rows: arrays with one value per row.

    Differences are relative to the scale of the tensor (dimensionless), and infinite where undefined.

    Attributes:
        role: a ``Role``.
        kind: a ``RowKind``, as far as it needs no tolerance.
        element: the largest difference of the statistics of elements, relative to the largest element.
        mean: the largest difference of means, relative to the root mean square.
        norm: the largest difference of norms, relative to the norm.
        projection: the difference of the order-sensitive statistic, relative to the largest element times the root of
            the number of elements; it is judged like an element.
        roundoff: the unit round-off of the dtype; for a result the coarsest one that it has passed in its call.
        passed: the unit round-off of the coarsest dtype that the value has passed in any call that differs so far.
        numel: the number of elements.
        reduction: the number of terms behind each element.
        rounded: whether the statistics were rounded to the dtype.
        whole: whether whole tensors were compared.
        free: how much single elements may differ besides, relative to the largest one: what an optimizer has made of
            rounding noise.
        inexact: how much mean and norm may differ besides, relative to the scale of the tensor: the known error of an
            inexact function, or of a parameter an element that is rounded the other way.
        fresh: whether it is a parameter that no step has updated: noise of earlier calls says nothing about it.
        origin: the row of the earlier result that an input is, or -1.
        row_starts: the first row of each entry, and the number of rows; one value more than there are entries.
        depends: for each entry the entry whose noise it inherits beside its inputs (its forward call), or -1.
        coarsest: for each entry the unit round-off of the coarsest dtype that its values have passed.
        enclosing: for each entry the later entry of the module around it, or -1.
        steep: for each entry how much its results may differ because its function turns an absolute difference of its
            inputs into a relative one (exp, softmax) or into a difference of a phase (sin); dimensionless.
        squares: for each entry whether it gets squares (the state of an optimizer), which differ by twice as much.
        other_formats: one value: whether the user says that both sides compute in different number formats.
        without_values: the rows in which a side says that its tensor has no values, ascending.
        after_update: for each entry whether an optimizer has moved parameters before it in this step; empty where none
            has.
    """

    role: Ints
    kind: Ints
    element: Floats
    mean: Floats
    norm: Floats
    projection: Floats
    roundoff: Floats
    passed: Floats
    numel: Floats
    reduction: Floats
    rounded: Bools
    whole: Bools
    free: Floats
    inexact: Floats
    fresh: Bools
    origin: Ints
    row_starts: Ints
    depends: Ints
    coarsest: Floats
    enclosing: Ints
    steep: Floats
    squares: Bools
    other_formats: Bools = field(default_factory=lambda: np.zeros(1, np.bool_))
    without_values: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    after_update: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def sliced(self, rows: Ints | slice) -> Measured:
        """Return the measurements of some rows, as those of one entry."""
        by_row = {name: getattr(self, name)[rows] for name in self.__slots__[: self.__slots__.index("row_starts")]}
        count = len(by_row["role"])
        return Measured(
            **by_row,
            row_starts=np.array([0, count]),
            depends=np.full(1, -1),
            coarsest=self.coarsest.max(initial=0.0, keepdims=True),
            enclosing=np.full(1, -1),
            steep=self.steep.max(initial=0.0, keepdims=True),
            squares=self.squares.any(keepdims=True),
            other_formats=self.other_formats,
        )

    def most_noise(self, roundoff: Floats) -> Floats:
        """Return the largest difference that counts as noise where values have passed a dtype of this round-off."""
        roundings, most = OTHER_FORMATS if self.other_formats.any() else (NOISY_ROUNDINGS, NOISIEST)
        return np.maximum(NOISE_CAP, np.minimum(roundings * roundoff, most))

    @property
    def worst(self) -> Floats:
        """Return the largest difference of each row in any part; a new array at each access."""
        return np.maximum(np.maximum(self.element, self.mean), np.maximum(self.norm, self.projection))


@dataclass(slots=True)
class Judged:
    """The judgement of all rows.

    ``times`` and ``tolerance`` belong to the part (element, mean or norm) that differs most in units of its tolerance.
    Both are dimensionless, and have no meaning for kinds that no tolerance excuses.

    Attributes:
        level: a ``Level`` per row.
        kind: a ``RowKind`` per row.
        noise: the largest difference that passed; it is allowed in the next step.
        times: the difference in units of the tolerance; infinite where nothing is allowed (integers).
        tolerance: the allowed difference, relative to the scale of the tensor; 0 where nothing is allowed.
        by_reruns: whether a learned spread decided; empty where none was given.
    """

    level: Ints
    kind: Ints
    noise: float
    times: Floats
    tolerance: Floats
    by_reruns: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def sliced(self, rows: Ints | slice) -> Judged:
        """Return the verdicts of some rows."""
        own = self.by_reruns[rows] if self.by_reruns.size else self.by_reruns
        return Judged(self.level[rows], self.kind[rows], self.noise, self.times[rows], self.tolerance[rows], own)


@dataclass(slots=True)
class _Weighed:
    """Differences in units of the allowed ones (above 1 is too much), and the allowed one of the part that decides."""

    excess: Floats
    allowed: Floats

    def where(self, condition: Bools, other: _Weighed) -> _Weighed:
        """Return these values where the condition holds, and the values of ``other`` elsewhere."""
        return _Weighed(
            np.where(condition, self.excess, other.excess), np.where(condition, self.allowed, other.allowed)
        )

    def times_and_tolerance(self) -> tuple[Floats, Floats]:
        """Return ``times`` and ``tolerance`` of ``Judged``."""
        nothing = self.allowed <= NOTHING_ALLOWED
        times = np.where(nothing & (self.excess > 0.0), np.inf, self.excess)
        return times, np.where(nothing, 0.0, self.allowed)


@dataclass(slots=True)
class _Slack:
    """How much rows may differ because the inputs of their call differ.

    Attributes:
        seen: the difference in every part.
        unseen: the difference of single elements, which averages out in mean and norm.
    """

    seen: Floats
    unseen: Floats


@dataclass(slots=True)
class _Rows:
    """What every step of the judgement needs of the rows; arrays with one value per row.

    Attributes:
        measured: the differences.
        is_input: whether the row is an input or a parameter of its call.
        hard: whether no tolerance applies to what is wrong with the row.
        worst: the largest difference in any part, infinite where ``hard``.
        entry: the number of the entry of the row.
        strict: the tolerances of a result whose inputs agree exactly.
        loose: the tolerances of any other row.
        learned: judges rows with a learned spread by it, and leaves other rows as they are.
    """

    measured: Measured
    is_input: Bools
    hard: Bools
    worst: Floats
    entry: Ints
    strict: Tolerances
    loose: Tolerances
    learned: Callable[[_Weighed], _Weighed]

    @classmethod
    def of(cls, measured: Measured, floor: NoiseFloor | None, updated: float) -> _Rows:
        """Return the rows of a table; ``floor`` as in ``judge``, ``updated`` is what an update may do to parameters."""
        hard = measured.kind >= RowKind.ARGUMENT
        strict = _limits(measured, measured.roundoff, STRICT)
        return cls(
            measured,
            is_input=measured.role != Role.RESULT,
            hard=hard,
            worst=np.where(hard, np.inf, measured.worst),
            entry=np.repeat(np.arange(measured.row_starts.size - 1), np.diff(measured.row_starts)),
            strict=strict,
            loose=_limits(measured, measured.passed, LOOSE),
            learned=_against(floor, measured, strict, updated),
        )


def judge(measured: Measured, noise: float = 0.0, floor: NoiseFloor | None = None) -> Judged:
    """Judge all rows of one pair of dumps.

    Each row is weighed in three ways (see ``_judge_against_inputs`` and ``_choose``):

    - ``alone``: by the tolerance of its dtype, as if nothing before it differed;
    - ``amplified``: by the tolerance plus what the differences of the inputs of its call may become in its result;
    - ``carried``: by the tolerance plus the noise of earlier calls.

    Args:
        measured: the differences of all rows.
        noise: the noise of the last step without a divergence (dimensionless).
        floor: learned spreads of reruns; where there is one, it decides instead of the tolerance of the dtype.
    """
    rows = _Rows.of(measured, floor, UPDATED if noise > 0.0 else 0.0)
    moved = np.full(measured.row_starts.size - 1, noise)
    alone, amplified = _judge_results(rows, moved)
    noise_by_entry, next_noise = _noise_of_earlier_calls(rows, alone, amplified, noise)
    if measured.after_update.any():
        moved = np.where(measured.after_update, noise_by_entry, noise)
        alone, amplified = _judge_results(rows, moved)
        noise_by_entry, next_noise = _noise_of_earlier_calls(rows, alone, amplified, noise)
    earlier = np.where(measured.fresh, noise, noise_by_entry[rows.entry])
    carries = np.where(measured.squares[rows.entry], 2.0 * CARRIED, CARRIED)
    carried_slack = np.maximum(carries * earlier, np.where(moved > 0.0, UPDATED, 0.0)[rows.entry])
    carried_slack[measured.roundoff == 0.0] = 0.0  # integers carry no noise
    carried_slack = np.maximum(carried_slack, measured.inexact)
    carried = rows.learned(_weigh(measured, rows.loose, _Slack(carried_slack, measured.free)))
    carried = _judged_before(rows, carried, amplified)
    input_differs = rows.is_input & (rows.hard | (carried.excess > 1.0))
    result_differs = rows.hard | (~rows.is_input & (amplified.excess > 1.0))
    flows = _flows(measured, input_differs, result_differs)[rows.entry]
    weighed = _choose(rows, noise_by_entry, carried, alone.where(flows, amplified))
    differs = np.where(rows.is_input, input_differs, weighed.excess > 1.0)
    soft = np.where(differs, RowKind.VALUE, np.minimum(measured.kind, RowKind.UNCHECKED))
    kind = np.where(rows.hard, measured.kind, soft)
    times, tolerance = weighed.times_and_tolerance()
    by_reruns = np.zeros(0, np.bool_) if floor is None else np.isfinite(floor.element)
    return Judged(_levels(measured, kind, flows), kind, next_noise, times, tolerance, by_reruns)


def _judge_results(rows: _Rows, moved: Floats) -> tuple[_Weighed, _Weighed]:
    """Return the rows weighed alone, and weighed with what the differences of their inputs may become, for modules also
    those of calls inside of them; ``moved`` as in ``_judge_against_inputs``."""
    measured = rows.measured
    alone, amplified = _judge_against_inputs(rows, moved, np.zeros_like(rows.worst))
    coarse = measured.coarsest.max(initial=0.0) > FLOAT32_ROUNDOFF
    noisy = coarse | (measured.steep > 0.0)[rows.entry] | (measured.inexact > 0.0)
    if noisy.any() and (measured.enclosing >= 0).any():
        inside = np.minimum(_quiet(rows, alone, amplified), measured.most_noise(measured.passed))
        alone, amplified = _judge_against_inputs(rows, moved, np.where(noisy, inside, 0.0))
    return alone, amplified


def _judge_against_inputs(rows: _Rows, moved: Floats, noise_inside: Floats) -> tuple[_Weighed, _Weighed]:
    """Return the rows weighed alone, and weighed with what the differences of their inputs may become.

    ``moved`` is, by entry, the noise of which an update before it may have made differences that statistics do not
    show; ``noise_inside`` is the difference of each row that modules around its call may inherit.
    """
    measured = rows.measured
    of_parameters, unseen = measured.role == Role.PARAMETER, _unseen(measured)
    # A module gets the parameters of the modules inside of it as it gets its own.
    inside = np.maximum(noise_inside, np.where(of_parameters, rows.worst, 0.0))
    inherited_by_entry = np.maximum(_inherited(measured, rows.is_input, rows.worst), _from_inside(measured, inside))
    unseen_by_entry = np.maximum(
        _inherited(measured, rows.is_input, unseen), _from_inside(measured, np.where(of_parameters, unseen, 0.0))
    )
    steep = np.minimum(measured.steep[rows.entry], AMPLIFICATION * measured.most_noise(measured.passed))
    exact = ((inherited_by_entry == 0.0) & (moved == 0.0))[rows.entry]
    free = np.maximum(AMPLIFICATION * unseen_by_entry[rows.entry], measured.free)
    taken_over = np.maximum(np.maximum(AMPLIFICATION * inherited_by_entry, CARRIED * moved)[rows.entry], steep)
    slack = _Slack(np.maximum(taken_over, measured.inexact), free)
    alone = rows.learned(_weigh(measured, rows.loose, _Slack(measured.inexact, measured.free)))
    # Inputs without any difference leave only the rounding of one call, which the strict tolerance covers.
    with_inputs = _weigh(measured, rows.strict, slack).where(exact, _weigh(measured, rows.loose, slack))
    return alone, rows.learned(with_inputs)


def _judged_before(rows: _Rows, carried: _Weighed, results: _Weighed) -> _Weighed:
    """Return ``carried`` without the excess of inputs that are a result of an earlier call which passes: the difference
    was judged there. A result that only follows from a wrong input was not."""
    origin, too_large = rows.measured.origin, carried.excess > 1.0
    passes = too_large & (origin >= 0) & (results.excess[origin] <= 1.0) & ~rows.hard[origin]
    input_differs = _any(rows.is_input & (rows.hard | (too_large & ~passes)), rows.measured.row_starts)
    for row in passes.nonzero()[0].tolist():  # ascending: what is known of an earlier call is complete
        if input_differs[rows.entry[origin[row]]]:
            passes[row], input_differs[rows.entry[row]] = False, True
    return _Weighed(np.where(passes, 1.0, carried.excess), carried.allowed)


def _noise_of_earlier_calls(rows: _Rows, alone: _Weighed, amplified: _Weighed, noise: float) -> tuple[Floats, float]:
    """Return the noise before each entry, and the noise after the last one, which the next step starts with.

    Only rows that pass count, and only in calls whose inputs pass alone: other differences are no noise.
    """
    starts, quiet = rows.measured.row_starts, _quiet(rows, alone, amplified)
    caps = _noise_caps(rows, noise)
    noise_by_entry = _noise_before(quiet, starts, noise, caps)
    last = float(max(noise_by_entry[-1] if noise_by_entry.size else noise, quiet.max(initial=0.0)))
    return noise_by_entry, min(last, float(caps.max(initial=NOISE_CAP)))


def _quiet(rows: _Rows, alone: _Weighed, amplified: _Weighed) -> Floats:
    """Return the differences of the rows that are noise; 0 for others."""
    clean_by_entry = ~_any(rows.is_input & ((alone.excess > 1.0) | rows.hard), rows.measured.row_starts)
    passes = np.where(rows.is_input, alone.excess <= 1.0, amplified.excess <= 1.0)
    return np.where(passes & ~rows.hard & clean_by_entry[rows.entry], rows.worst, 0.0)


def _noise_caps(rows: _Rows, noise: float) -> Floats:
    """Return the largest noise that counts before each entry: more after calls in a coarse dtype with differences."""
    starts, coarsest = rows.measured.row_starts, rows.measured.coarsest
    differing = _any(rows.measured.worst > 0.0, starts) | (noise > 0.0)
    before = np.maximum.accumulate(np.concatenate(([0.0], np.where(differing, coarsest, 0.0))))
    return rows.measured.most_noise(before[:-1])


def _choose(rows: _Rows, noise_by_entry: Floats, carried: _Weighed, result: _Weighed) -> _Weighed:
    """Return the weighing that decides about each row: ``carried`` for inputs, ``result`` for results.

    A result of a call without recorded inputs is judged like an input, as soon as an earlier call has noise.
    """
    has_source_by_entry = _any(rows.is_input, rows.measured.row_starts) | (rows.measured.depends >= 0)
    result_without_inputs = ~has_source_by_entry[rows.entry] & (noise_by_entry[rows.entry] > 0.0)
    return carried.where(rows.is_input | result_without_inputs, result)


def _levels(measured: Measured, kind: Ints, flows: Bools) -> Ints:
    """Return a level per row: an error where the difference arises, a warning where it comes from an input."""
    differs = kind > RowKind.UNCHECKED
    own = (measured.role == Role.PARAMETER) | ((measured.role == Role.RESULT) & ~flows) | (kind >= RowKind.ARGUMENT)
    level = np.where(differs, np.where(own, Level.ERROR, Level.WARNING), Level.PASS)
    if differs.any():
        _make_error(level, measured, int(differs.argmax()))
    return np.where((kind > RowKind.NONE) & (kind <= RowKind.UNCHECKED), Level.WARNING, level)


def _make_error(level: Ints, measured: Measured, first: int) -> None:
    """Make the first difference, in row ``first``, an error: no call before it can be the cause."""
    entry = int(np.searchsorted(measured.row_starts, first, side="right")) - 1
    rows = slice(measured.row_starts[entry], measured.row_starts[entry + 1])
    if level[rows].max() == Level.WARNING:
        inputs = (level[rows] == Level.WARNING) & (measured.role[rows] != Role.RESULT)
        level[rows][inputs if inputs.any() else level[rows] == Level.WARNING] = Level.ERROR


def _flows(measured: Measured, input_differs: Bools, result_differs: Bools) -> Bools:
    """Return per entry whether an input differs, or anything in the forward call that it depends on."""
    own = _any(input_differs, measured.row_starts)
    everything = own | _any(result_differs, measured.row_starts)
    has_forward = measured.depends >= 0
    return own | (has_forward & everything[np.where(has_forward, measured.depends, 0)]) if own.size else own


def _limits(measured: Measured, roundoff: Floats, factors: Factors) -> Tolerances:
    """Return the tolerances of all rows; those of rounded statistics are at least one rounding on each side."""
    limits = tolerances(roundoff, measured.numel, measured.reduction, factors)
    own = 2.0 * measured.roundoff
    average = np.where(measured.rounded, np.maximum(limits.average, own), limits.average)
    return Tolerances(limits.element, np.where(measured.whole, limits.element, average))


def beyond_rounding(measured: Measured, seen: Floats | float = 0.0, unseen: Floats | float = 0.0) -> Bools:
    """Return which rows differ by more than the rounding of one call and a slack (see ``_Slack``), whatever its inputs
    are."""
    slack = _Slack(*(np.broadcast_to(np.asarray(part), measured.element.shape) for part in (seen, unseen)))
    return _weigh(measured, _limits(measured, measured.roundoff, LOOSE), slack).excess > 1.0


def from_sources(measured: Measured, worst: Floats) -> Floats:
    """Return per entry the largest of these differences, one per row, that its results may have taken over: from its
    inputs, from the call that it depends on, or from calls inside of the module."""
    is_input = measured.role != Role.RESULT
    return np.maximum(_inherited(measured, is_input, worst), _from_inside(measured, worst))


def _weigh(measured: Measured, limits: Tolerances, slack: _Slack) -> _Weighed:
    """Return the differences in units of tolerance plus slack."""
    # Statistics average over the elements; of whole tensors the norm of the difference is known, which does not.
    averaged = np.where(measured.whole, 1.0, np.maximum(measured.numel, 1.0))
    average = limits.average + np.maximum(slack.seen, slack.unseen / np.sqrt(averaged))
    return _weighed(measured, limits.element + np.maximum(slack.seen, slack.unseen), average, average)


def _weighed(measured: Measured, element: Floats, mean: Floats, norm: Floats) -> _Weighed:
    """Return the differences in units of these allowed differences of element, mean and norm."""
    with np.errstate(invalid="ignore"):
        elements = np.maximum(measured.element, measured.projection)
        parts = (elements / element, measured.mean / mean, measured.norm / norm)
    first, second, third = (np.nan_to_num(part, nan=0.0, posinf=np.inf) for part in parts)
    excess = np.maximum(np.maximum(first, second), third)
    return _Weighed(excess, np.where(first == excess, element, np.where(second == excess, mean, norm)))


def _against(
    floor: NoiseFloor | None, measured: Measured, strict: Tolerances, updated: float
) -> Callable[[_Weighed], _Weighed]:
    """Return a function that judges rows with a learned spread by it, parameters by ``updated`` at least."""
    if floor is None:
        return lambda weighed: weighed
    least = np.where(measured.role == Role.PARAMETER, updated, 0.0)
    limits = (strict.element, strict.average, strict.average)
    spreads = (floor.element, floor.mean, floor.norm)
    pairs = zip(spreads, limits, strict=True)
    allowed = [np.maximum(np.maximum(floor.limit * spread, limit), least) for spread, limit in pairs]
    known = np.isfinite(floor.element)
    learned = _weighed(measured, *(np.where(known, values, 1.0) for values in allowed))
    return lambda weighed: learned.where(known, weighed)


def _unseen(measured: Measured) -> Floats:
    """Return how far single elements of a row may differ beyond its statistics; 0 for whole tensors."""
    single = of_single_elements(measured.mean, measured.norm, measured.numel)
    return np.minimum(np.where(measured.whole, 0.0, single), measured.most_noise(measured.passed))


def _from_inside(measured: Measured, noise: Floats) -> Floats:
    """Return per entry the largest value of ``noise``, one per row, in the calls inside of the module."""
    result = np.zeros(len(measured.enclosing))
    own = _per_entry(noise, measured.row_starts)
    for number in (own > 0.0).nonzero()[0].tolist():
        value, around = own[number], int(measured.enclosing[number])
        while around >= 0 and result[around] < value:
            result[around] = value
            around = int(measured.enclosing[around])
    return result


def _inherited(measured: Measured, is_input: Bools, worst: Floats) -> Floats:
    """Return per entry the largest difference of its inputs, and of all rows of the call that it depends on."""
    carried = _per_entry(np.where(is_input, worst, 0.0), measured.row_starts)
    if not carried.size:
        return carried
    everything = np.maximum(carried, _per_entry(worst, measured.row_starts))
    has_forward = measured.depends >= 0
    return np.maximum(carried, np.where(has_forward, everything[np.where(has_forward, measured.depends, 0)], 0.0))


def _noise_before(quiet: Floats, starts: Ints, noise: float, caps: Floats) -> Floats:
    """Return per entry the largest difference that passed in an earlier entry, at most the value of ``caps``."""
    largest = np.maximum.accumulate(np.concatenate(([noise], _per_entry(quiet, starts))))
    return np.minimum(largest[:-1], caps)


def _any(flags: Bools, starts: Ints) -> Bools:
    """Return per entry whether one of its rows is flagged."""
    return _per_entry(flags.astype(np.float64), starts) > 0.0


def _per_entry(values: Floats, starts: Ints) -> Floats:
    """Return the largest value among the rows of each entry; 0 for an entry without rows."""
    if starts.size <= 1:
        return np.zeros(0)
    padded = np.concatenate((values, [0.0]))
    result = np.maximum.reduceat(padded, starts[:-1])
    return np.asarray(np.where(np.diff(starts) > 0, result, 0.0))
