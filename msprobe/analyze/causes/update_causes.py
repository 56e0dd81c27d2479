"""Causes of a first divergence that no single call shows: number formats, settings of an optimizer, gradients.

``explain_by_causes`` puts such a cause before the reason of a description:

- values of another dtype, which an option compares;
- gradients that are one multiple of those of the golden run from the first one on;
- products that look rounded to TF32 or HF32 (``product_precision``);
- another class or another setting of an optimizer, where both sides recorded them;
- a step of an optimizer more or less;
- updates of all parameters that are one multiple of those of the golden run, which is another learning rate;
- gradients that were not set to zero: those of one run are the sums of several steps;
- gradients that one run adds to those it has, where the other one has cleared them;
- gradients that were cleared before the optimizer got them;
- a difference that is small enough to be rounding (``magnified_rounding``).

The place of such a cause is the line that calls ``step``, ``backward`` or ``zero_grad``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from msprobe.analyze.causes.magnified_rounding import magnified_rounding
from msprobe.analyze.causes.product_precision import rounded_products
from msprobe.analyze.compared_entries import without_origin
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import CallSource, PairSource, call_source
from msprobe.compare.records.entries import CLIPPING, OPTIMIZER
from msprobe.compare.records.optimizer_steps import (
    OptimizerStep,
    OtherCount,
    gradient_calls,
    number_of_steps,
    optimizer_steps,
    other_settings,
    paired_steps,
    shown_setting,
    update_statement,
)
from msprobe.compare.records.source_lines import source_line
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor
from msprobe.numerics.verdict import Role

if TYPE_CHECKING:
    from msprobe.compare.differences.parameter_updates import Parameter, ParameterUpdates, Sums

_CLIPS = (CLIPPING, OPTIMIZER)
_SAME = 1e-9
_UNIFORM = 0.03
_MOST = 0.7
_CLOSE = 2e-3
_UNSHOWN = "no recorded value shows what this step makes of it"
_ENOUGH = 32
"""Inputs of one call that are looked at."""

Stack = tuple[str, ...]
"""The frames of a call, innermost first; empty where none are known."""


class _Cause(NamedTuple):
    """A cause in words, and the stack of the call that it is about, in the target and in the golden run."""

    text: str
    stacks: tuple[Stack, Stack]


class _Backward(NamedTuple):
    """The stack of a call of ``backward``, and of the ``zero_grad`` just before it; empty where that is none."""

    stack: Stack
    cleared: Stack


def explain_by_causes(
    comparison: Comparison, entry: int, description: FirstDivergence, *, later_step: bool
) -> PairSource | None:
    """Complete the reason, and where a cause is certain the module, of a description.

    Args:
        comparison: the compared pair.
        entry: the number of the entry that is described.
        description: what is reported about it; it is changed.
        later_step: whether an earlier step was compared and agreed.

    Returns:
        where both runs make the call that the cause is about; None where the description says that itself.
    """
    note = rounded_products(comparison, entry) or _other_precision(description) or _scaled(comparison, entry)
    if note:
        stated = without_origin(description.reason) if description.kind == "dtype" else description.reason
        description.reason = f"{stated}; {note}"
        return None
    cause = _cause(comparison, entry, later_step)
    if cause is not None:
        description.module = OPTIMIZER
        # The cause is what makes the input differ.
        description.reason = f"{cause.text}; {without_origin(description.reason)}"
        return _source(cause.stacks)
    if magnified := magnified_rounding(comparison, entry):
        description.reason = f"{description.reason}; {magnified}"
    if description.module == OPTIMIZER and not _is_of_optimizer(comparison, entry):
        target, golden = _last_steps(*_earlier(comparison).optimizers)
        return _source((update_statement(target, comparison.target), update_statement(golden, comparison.golden)))
    return None


def _is_update(comparison: Comparison, entry: int) -> bool:
    """Return whether an entry has parameters after a step of which each side has an own implementation."""
    return any(row in comparison.table.updated for row in comparison.table.rows_of(entry))


def _is_of_optimizer(comparison: Comparison, entry: int) -> bool:
    return comparison.table.keys[entry].parent == OPTIMIZER or _is_update(comparison, entry)


def _source(stacks: tuple[Stack, Stack]) -> PairSource | None:
    target, golden = (CallSource(stack, OPTIMIZER, source_line(stack)) if stack else None for stack in stacks)
    return PairSource(target, golden) if target or golden else None


def _other_precision(description: FirstDivergence) -> str:
    """Return what to do where the sides have different dtypes."""
    if description.kind != "dtype":
        return ""
    return (
        "if one run is meant to compute in another precision (a conversion, another region of autocast), "
        "--ignore-dtype compares the values of both"
    )


def _scaled(comparison: Comparison, entry: int) -> str:
    """Return by which factor the gradients of the target are larger from the first one on; "" where there is none."""
    table = comparison.table
    if table.keys[entry].phase == Phase.FORWARD.value:
        return ""
    from msprobe.compare.exemptions.gradients.scaled_losses import factor_of_gradients  # where gradients differ

    factor = factor_of_gradients(table)
    if factor is None:
        return ""
    return (
        f"gradients of the target are {factor:.6g} times those of the golden run from the first one on, as with a "
        "scaled loss, and no call of an optimizer that was compared shows that they are divided again"
    )


def _cause(comparison: Comparison, entry: int, later_step: bool) -> _Cause | None:
    if _is_update(comparison, entry):
        own = list(optimizer_steps(comparison.target)), list(optimizer_steps(comparison.golden))
        return _kept(comparison) or _clipped_once(comparison) or _setting(*own) or _kinds(*own)
    if comparison.table.keys[entry].parent in _CLIPS:
        own = list(optimizer_steps(comparison.target)), list(optimizer_steps(comparison.golden))
        known = _accumulated_input(comparison, entry) or _settings(*own) or _cleared(comparison, entry, own)
        if known is None and not comparison.table.entries[entry].of_both:
            known = _other_parameters(*own)
        return known or (_kept(comparison) if _received(comparison, entry) else None)
    if _is_after_backward(comparison, entry) and _received(comparison, entry) and (kept := _kept(comparison)):
        return kept
    if not later_step or not _received(comparison, entry):
        return None
    earlier = _earlier(comparison)
    settings = _setting if earlier.agree else _settings
    return settings(*earlier.optimizers) or _accumulated_update(comparison) or _uniform_ratio(comparison)


def _is_after_backward(comparison: Comparison, entry: int) -> bool:
    """Return whether an entry is a call outside of all modules that follows a backward pass, as unscaling is."""
    keys = comparison.table.keys
    own = keys[entry].phase == "forward" and not keys[entry].parent
    return own and any(key.phase == "backward" for key in keys[:entry])


def _received(comparison: Comparison, entry: int) -> bool:
    """Return whether values differ that the entry was given, and parameters of the run are among those that do."""
    judged, role, table = comparison.judged, comparison.measured.role, comparison.table
    rows = [row for row in table.rows_of(entry) if judged.times[row] > 1.0]
    return bool(rows) and all(role[row] != Role.RESULT for row in rows[:1])


_ACCUMULATED = "gradients accumulate in the {} (no zero_grad between steps?): {} the sum of the gradients so far"
_SIDES = "target", "golden run"


def _accumulated(comparison: Comparison, side: int, what: str) -> _Cause:
    """Return the cause that gradients of one side accumulate: where it computes them, and the other one clears them."""
    calls = [list(gradient_calls(dump)) for dump in (comparison.target, comparison.golden)]
    stacks = [_last_call(own, "backward") for own in calls]
    stacks[1 - side] = _last_call(calls[1 - side], "zero_grad") or stacks[1 - side]
    return _Cause(_ACCUMULATED.format(_SIDES[side], what), (stacks[0], stacks[1]))


def _kept(comparison: Comparison) -> _Cause | None:
    """Return the cause that one side adds a gradient to those it has, where the other one has cleared them before."""
    calls = [list(gradient_calls(dump)) for dump in (comparison.target, comparison.golden)]
    target, golden = (list(_backward_calls(own)) for own in calls)
    if len(target) != len(golden):
        return None
    for number, (ours, theirs) in enumerate(zip(target, golden, strict=True)):
        keeps = int(bool(ours.cleared))
        dump = (comparison.target, comparison.golden)[keeps]
        clean = not number and (comparison.earlier is None or _clears_between_steps(dump))
        if bool(ours.cleared) != bool(theirs.cleared) and not clean:
            text = (
                f"gradients accumulate in the {_SIDES[keeps]}: the {_SIDES[1 - keeps]} clears them (zero_grad) "
                "before this backward"
            )
            return _Cause(text, (ours.cleared or ours.stack, theirs.cleared or theirs.stack))
    return None


def _clears_between_steps(dump: Dump) -> bool:
    """Return whether the steps of optimizers of a dump get no gradient that an earlier one has used, although nothing
    says where it is cleared: before the step begins."""
    recorded = dump.header.get("training_calls")
    items = recorded if isinstance(recorded, list) else []
    calls = {item.get("call") for item in items if isinstance(item, dict)}
    return "optimizer_step" in calls and "kept_gradients" not in calls


def _backward_calls(calls: Sequence[tuple[str, Stack]]) -> Iterator[_Backward]:
    """Yield the calls of ``backward`` of one step. What follows the last of them may clear for the first one: a step is
    one of many."""
    for number, (call, stack) in enumerate(calls):
        before, cleared = calls[number - 1]
        if call == "backward":
            yield _Backward(stack, cleared if before == "zero_grad" else ())


def _last_call(calls: Sequence[tuple[str, Stack]], name: str) -> Stack:
    return next((stack for call, stack in reversed(calls) if call == name), ())


def _earlier(comparison: Comparison) -> ParameterUpdates:
    """Return what the steps before showed."""
    from msprobe.compare.differences.parameter_updates import NO_UPDATES  # loaded for several steps only

    return comparison.earlier or NO_UPDATES


def _own(comparison: Comparison) -> ParameterUpdates:
    """Return what the step itself shows."""
    from msprobe.compare.differences.parameter_updates import updates_of  # loaded for several steps only

    return updates_of(comparison.table, comparison.measured.role, comparison.target, comparison.golden)


# Settings


def _settings(target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]) -> _Cause | None:
    """Return the first class or setting that differs, or the first step that one side alone makes; None where there is
    none, or one side recorded no steps."""
    for ours, theirs in paired_steps(target, golden):
        if ours.kind != theirs.kind:
            return _Cause(_kind_text(ours, theirs), (ours.stack, theirs.stack))
        different = _other_setting(ours, theirs)
        if different is not None:
            return different
    return _other_number_of_steps(target, golden)


def _setting(target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]) -> _Cause | None:
    """Return the first setting that differs, also between optimizers of different classes, which are named then, or the
    first step that one side alone makes."""
    found = (_other_setting(ours, theirs) for ours, theirs in paired_steps(target, golden))
    return next(filter(None, found), None) or _other_number_of_steps(target, golden)


def _other_setting(ours: OptimizerStep, theirs: OptimizerStep) -> _Cause | None:
    different = next(other_settings(ours, theirs), None)
    if different is None:
        return None
    kinds = f"{_kind_text(ours, theirs)}; " if ours.kind != theirs.kind else ""
    return _Cause(kinds + setting_text(ours, theirs, different), (ours.stack, theirs.stack))


def setting_text(ours: OptimizerStep, theirs: OptimizerStep, name: str) -> str:
    """Return in words what a setting is on both sides."""
    kinds = ours.kind or theirs.kind or "the optimizer"
    words = "the learning rate" if name == "lr" else f"the setting {name}"
    group = f", group {ours.group}" if ours.group else ""
    left, right = (shown_setting(step.settings[name]) for step in (ours, theirs))
    if ours.kind and theirs.kind and ours.kind != theirs.kind:
        return f"{words} is {left} in the target ({ours.kind}{group}), {right} in the golden run ({theirs.kind}{group})"
    return f"{words} of {kinds}{group} is {left} in the target, {right} in the golden run"


def _kinds(target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]) -> _Cause | None:
    """Return the first class that differs. The call that is described says more about the place: what is wrong stands
    in one of both implementations."""
    pairs = paired_steps(target, golden)
    return next((_Cause(_kind_text(*pair), ((), ())) for pair in pairs if pair[0].kind != pair[1].kind), None)


def _kind_text(ours: OptimizerStep, theirs: OptimizerStep) -> str:
    return f"the optimizer is {ours.kind} in the target, {theirs.kind} in the golden run"


def _other_number_of_steps(*steps: Sequence[OptimizerStep]) -> _Cause | None:
    """Return the last step that one side makes more often, of parameters that the other one leaves out if there are."""
    numbers = [number_of_steps(own) for own in steps]
    if not all(numbers) or numbers[0] == numbers[1]:
        return None
    text = f"optimizers make {numbers[0]} step{'s'[: numbers[0] - 1]} in the target, {numbers[1]} in the golden run"
    more = int(numbers[1] > numbers[0])
    others = {name for step in steps[1 - more] for name in step.parameters}
    of_others = [step for step in steps[more] if not others.issuperset(step.parameters)] or steps[more]
    return _Cause(text, ((), of_others[-1].stack) if more else (of_others[-1].stack, ()))


def _other_parameters(target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]) -> _Cause | None:
    """Return the first parameter that the optimizers of one side have besides those of the other side."""
    names = [[name for step in steps for name in step.parameters if name] for steps in (target, golden)]
    for side in (0, 1):
        more = [name for name in names[side] if name not in names[1 - side]]
        if more and set(names[1 - side]) < set(names[side]):
            text = f"the optimizers of the {_SIDES[side]} have {more[0]}, those of the {_SIDES[1 - side]} have not"
            return _Cause(text, _last_steps(target, golden))
    return None


def _last_steps(target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]) -> tuple[Stack, Stack]:
    """Return where both sides call the last step of an optimizer."""
    ours, theirs = (steps[-1].stack if steps else () for steps in (target, golden))
    return ours, theirs


# Updates of parameters


def _uniform_ratio(comparison: Comparison) -> _Cause | None:
    """Return a sentence where the updates of most parameters are one multiple of those of the golden run."""
    ratios = [ours / theirs for _, ours, theirs in _moves(comparison)]
    ratio = _common(ratios)
    if ratio is None or abs(ratio - 1.0) < _CLOSE:
        return None
    text = (
        f"the updates of the parameters in the step before are {ratio:.4g} times those of the golden run, "
        "as with another learning rate"
    )
    return _Cause(text, _last_steps(*_earlier(comparison).optimizers))


def _accumulated_update(comparison: Comparison) -> _Cause | None:
    """Return a sentence where the update of the target is that of the golden run for the sum of several gradients."""
    earlier = _earlier(comparison)
    predicted = []
    for (parameter, part), ours, theirs in _moves(comparison):
        step, every = (table.get(parameter) for table in (earlier.gradients, earlier.accumulated))
        if step is not None and every is not None and abs(step[1][part]) > _SAME * abs(every[1][part]):
            factor = every[1][part] / step[1][part]
            predicted += [ours / theirs / factor] if abs(factor - 1.0) > _UNIFORM else []  # else it shows no sum
    ratio = _common(predicted)
    if ratio is None or abs(ratio - 1.0) > _UNIFORM or _common([o / t for _, o, t in _moves(comparison)]) is not None:
        return None
    return _accumulated(comparison, 0, "the update of the step before is that for")


def _moves(comparison: Comparison) -> Iterator[tuple[tuple[Parameter, int], float, float]]:
    """Yield for each parameter, by mean (0) and projection (1), how far target and golden run moved it."""
    before = _earlier(comparison).parameters
    if not before:
        return
    for parameter, now in _own(comparison).parameters.items():
        then = before.get(parameter)
        for part in (0, 1) if then is not None else ():
            ours, theirs = (now[side][part] - then[side][part] for side in (0, 1))  # type: ignore[index]
            if abs(theirs) > 1e-5 * abs(now[1][part]) and abs(ours) > 0.0:
                yield (parameter, part), ours, theirs


def _common(ratios: list[float]) -> float | None:
    """Return the median of the ratios where most of them are nearly equal."""
    finite = np.array([ratio for ratio in ratios if np.isfinite(ratio)])
    if len(finite) < 3:
        return None
    median = float(np.median(finite))
    near = np.abs(finite - median) <= _UNIFORM * abs(median)
    return median if near.mean() >= _MOST and median != 0.0 else None


# Gradients that the optimizer gets


def _clipped_once(comparison: Comparison) -> _Cause | None:
    """Return the cause that one side alone clips gradients."""
    pairs = [
        pair
        for pair, key in zip(comparison.table.entries, comparison.table.keys, strict=True)
        if key.parent == CLIPPING
    ]
    first = [next((name for pair in pairs if (name := pair[:2][side]) is not None), None) for side in (0, 1)]
    if (first[0] is None) == (first[1] is None):
        return None
    side = int(first[0] is None)
    stacks: list[Stack] = [(), ()]
    stacks[side] = call_source((comparison.target, comparison.golden)[side], first[side] or "").stack
    return _Cause(f"gradients are clipped in the {_SIDES[side]} alone", (stacks[0], stacks[1]))


def _accumulated_input(comparison: Comparison, entry: int) -> _Cause | None:
    """Return the cause where an input of an optimizer is the sum of gradients of several steps on one side, and the
    gradient of this step on the other. Clipping may have multiplied the earlier gradients by a number."""
    before, now = _earlier(comparison), _own(comparison).gradients
    if not before.gradients:
        return None
    inputs = [sums for row in comparison.table.rows_of(entry) if (sums := _sums_of_both(comparison, row)) is not None]
    for side, earlier in itertools.product((0, 1), (before.accumulated, before.gradients)):
        shares = [share for sums in inputs[:_ENOUGH] for share in _shares_of_earlier(sums, side, now, earlier)]
        whole = [share for share in shares if abs(share - 1.0) <= _CLOSE]
        common = _common(shares)
        if len(whole) >= max(2.0, _MOST * len(shares)) or (common is not None and 0.0 < common < 1.0):
            return _accumulated(comparison, side, "what the optimizer gets is")
    return None


def _sums_of_both(comparison: Comparison, row: int) -> tuple[Sums, Sums] | None:
    """Return the sums of the tensors in a row that differ."""
    target, golden = comparison.table.target[row], comparison.table.golden[row]
    if target is None or golden is None or not is_tensor(target.raw) or comparison.judged.times[row] <= 1.0:
        return None
    from msprobe.compare.differences.parameter_updates import sums_of  # loaded where an optimizer was recorded only

    ours, theirs = sums_of(target.raw), sums_of(golden.raw)
    return None if ours is None or theirs is None else (ours, theirs)


def _shares_of_earlier(
    sums: tuple[Sums, Sums],
    side: int,
    now: Mapping[Parameter, tuple[Sums, Sums]],
    earlier: Mapping[Parameter, tuple[Sums, Sums]],
) -> Iterator[float]:
    """Yield for each statistic how many times the earlier gradient of a parameter one side has added to that of this
    step, which is the tensor of the other side."""
    for parameter, gradients in now.items():
        then = earlier.get(parameter)
        if then is None or not _close(gradients[1 - side], sums[1 - side]):
            continue
        scale = max(map(abs, then[side]))
        for whole, part, added in zip(sums[side], gradients[side], then[side], strict=True):
            if abs(added) > 1e-3 * scale and np.isfinite(whole - part):
                yield (whole - part) / added


def _close(left: Sums, right: Sums) -> bool:
    known = [(a, b) for a, b in zip(left, right, strict=True) if np.isfinite(a) and np.isfinite(b)]
    scale = max((abs(b) for _, b in known), default=0.0)
    return scale > 0.0 and all(abs(a - b) <= _CLOSE * max(abs(b), 1e-3 * scale) for a, b in known)


def _cleared(comparison: Comparison, entry: int, own: tuple[list[OptimizerStep], list[OptimizerStep]]) -> _Cause | None:
    """Return the cause where the optimizer of one side ran, but computed nothing: gradients were gone or never came."""
    pairs, keys = comparison.table.entries, comparison.table.keys
    calls = [pairs[number] for number, key in enumerate(keys) if key.parent == OPTIMIZER]
    dumps = comparison.target, comparison.golden
    reached = [any(".parameters_grad." in name for name in dump.data) for dump in dumps]
    for side, name in enumerate(_SIDES):
        if own[side] and calls and all(pair[side] is None for pair in calls):
            call, why = "zero_grad", "it ran and computed nothing (zero_grad between backward and step?)"
            if reached[1 - side] and not reached[side]:
                call, why = (
                    "backward",
                    "no backward pass reached a parameter (detached, or a loss of other parameters?)",
                )
            stacks = [steps[-1].stack if steps else () for steps in own]
            stacks[side] = _last_call(list(gradient_calls(dumps[side])), call) or stacks[side]
            return _Cause(f"the optimizer of the {name} got no gradients: {why}", (stacks[0], stacks[1]))
    return None


def unshown_setting(comparison: Comparison) -> FirstDivergence | None:
    """Return a description of ``Comparison.unshown_setting``; None where there is none."""
    found = comparison.unshown_setting
    if found is None:
        return None
    place = comparison.target.place
    description = FirstDivergence(
        step=place.step,
        rank=place.number if place.kind == "rank" else None,
        target=OPTIMIZER,
        golden=OPTIMIZER,
        slot="steps" if isinstance(found, OtherCount) else found.name,
        kind="argument",
        reason=f"{_count_text(found) if isinstance(found, OtherCount) else setting_text(*found)}; {_UNSHOWN}",
        module=OPTIMIZER,
        stack=[],
    )
    target, golden = (
        CallSource(step.stack, OPTIMIZER, source_line(step.stack)) for step in (found.target, found.golden)
    )
    set_place(description, PairSource(target, golden))
    return description


def _count_text(found: OtherCount) -> str:
    """Return in words how often both sides update a parameter."""
    own, other = ("1 step" if count == 1 else f"{count} steps" for count in found.counts)
    return f"optimizers update {found.parameter} in {own} in the target, in {other} in the golden run"
