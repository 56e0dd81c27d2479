"""Run one call again on the device under test and in a higher precision on the CPU, and judge each of its values.

    judgement = judge_call(call, replayer, "cpu")
    judgement.forward, judgement.backward          # one ValueJudgement per result, and per gradient of an argument

The golden call computes in float64 (complex128) of the same values; where an operator has no kernel for it, in float32,
which the judgement says. How far moved inputs carry the result is measured only where rounding does not explain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from msprobe.core.backend.replaying import (
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    PreparedCall,
    Replayer,
    mapped,
    widened,
)
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.numerics.conditioned import OTHER, SAME, Conditioned, by_condition, by_rounding
from msprobe.numerics.kinds import Level
from msprobe.replay.cases import RecordedResult
from msprobe.replay.moved_inputs import GOLDEN_DEVICE, MORE_DRAWS, MovedCalls
from msprobe.replay.random_results import judge_random

RANDOM = "random numbers: shapes, dtypes and what is known of their distribution are judged"
_WIDE = {DtypeKind.FLOAT: "float64", DtypeKind.COMPLEX: "complex128"}
_LESS_WIDE = {"float64": "float32", "complex128": "complex64"}
_INTEGER = find_dtype("int64")


@dataclass(frozen=True, slots=True)
class ValueJudgement:
    """One value of a call.

    Attributes:
        slot: ``output.0`` of a result, ``input.0`` of the gradient of an argument.
        target, golden: the values; None where a side has none.
        conditioned: how far they are apart.
        moved: the golden values of moved inputs, where the condition was asked for.
    """

    slot: str
    target: Any
    golden: Any
    conditioned: Conditioned
    moved: Sequence[np.ndarray[Any, Any]] = ()


@dataclass(frozen=True, slots=True)
class CallJudgement:
    """One call.

    Attributes:
        forward: its results.
        backward: the gradients of its arguments.
        golden_dtype: the dtype of the golden call.
        note: what a reader has to know, or "".
        roundoff: the coarsest round-off of its inputs, by which they are moved.
    """

    forward: list[ValueJudgement]
    backward: list[ValueJudgement] = field(default_factory=list)
    golden_dtype: str = "float64"
    note: str = ""
    roundoff: float = 0.0


def judge_call(
    call: PreparedCall,
    replayer: Replayer,
    device: str,
    target: Execution | None = None,
    *,
    conditions: bool = False,
    recorded: Sequence[RecordedResult | None] = (),
) -> CallJudgement:
    """Run a call on ``device`` and as the golden one, and judge its values.

    Args:
        call: the call.
        replayer: what runs it.
        device: the device under test.
        target: what the call returned there, where it has run already.
        conditions: move the inputs also where rounding alone explains a value, so that its condition is known.
        recorded: what the call returned when it was recorded, None for what is no tensor.

    Raises:
        CannotReplayError: it cannot be run on the device, or not as the golden one; or what runs here is not the call
            that was recorded.
    """
    target = target or replayer.run(call, device)
    golden_call, golden, dtype = _golden(call, replayer)
    if dtype != "float64" and device.startswith(GOLDEN_DEVICE) and _dtypes(golden_call) == _dtypes(call):
        raise CannotReplayError("the CPU has no kernel of a higher precision to compare with")
    if draws_random_numbers(golden_call, replayer, golden):
        drawn = list(_random(call, target, golden))
        _check_recorded_forms(recorded, drawn)
        return CallJudgement(drawn, [], dtype, RANDOM)
    moved = MovedCalls(call, golden_call, replayer, ties=_selects(golden))
    forward = list(_values(target.outputs, golden.outputs, moved, "outputs", conditions))
    _check_recorded_forms(recorded, forward)
    _check_recorded(recorded, forward, moved)
    backward = list(_values(target.gradients, golden.gradients, moved, "gradients", conditions))
    return CallJudgement(forward, backward, dtype, roundoff=moved.roundoff)


def _right_here(
    recorded: Sequence[RecordedResult | None], forward: Sequence[ValueJudgement]
) -> Iterator[tuple[RecordedResult, ValueJudgement, int]]:
    """Yield each tensor that is right here with what was recorded of it, and its position."""
    for value in forward:
        position = int(value.slot.rpartition(".")[2])
        own = recorded[position] if position < len(recorded) else None
        if own is not None and isinstance(value.golden, HeldTensor) and value.conditioned.level != Level.ERROR:
            yield own, value, position


def _check_recorded_forms(recorded: Sequence[RecordedResult | None], forward: Sequence[ValueJudgement]) -> None:
    """Raise CannotReplayError where a result is right here, and has another shape or dtype than the recorded one."""
    for own, value, _ in _right_here(recorded, forward):
        here = value.target.dtype, value.target.values.shape
        if here != (own.dtype, own.shape):
            forms = [f"{dtype} of shape {list(shape)}" for dtype, shape in (here, (own.dtype, own.shape))]
            difference = f"{value.slot} is {forms[0]}, in the dump {forms[1]}"
            raise CannotReplayError(f"not judged: what runs here is not what was recorded: {difference}")


def _check_recorded(
    recorded: Sequence[RecordedResult | None], forward: Sequence[ValueJudgement], moved: MovedCalls
) -> None:
    """Raise CannotReplayError where a result is right here, and far from the recorded one: something that the call
    needs is not in the dump, or the result was wrong where it was recorded."""
    for own, value, position in _right_here(recorded, forward):
        if own.held is None:
            continue
        found = _conditioned(own.held, value.golden, moved, "outputs", position)
        if found.level == Level.ERROR:
            wrong = explain(replace(value, target=own.held, conditioned=found)).replace("on the device", "in the dump")
            raise CannotReplayError(
                f"not judged: what runs here is not what was recorded, or it was wrong there: {value.slot}: {wrong}"
            )


def draws_random_numbers(call: PreparedCall, replayer: Replayer, execution: Execution | None = None) -> bool:
    """Return whether another seed gives another result: attention without dropout, for one, draws nothing.

    Args:
        call: the call.
        replayer: what runs it.
        execution: what it returned; None to run it for that.

    Raises:
        CannotReplayError: it cannot be run on the CPU.
    """
    if not replayer.is_random(call.prefix, call.api):
        return False
    execution = execution or replayer.run(call, GOLDEN_DEVICE)
    again = replayer.run(replace(call, seed=call.seed + 1, program_state=None), GOLDEN_DEVICE)
    pairs = zip_longest(execution.outputs, again.outputs)
    return not all(_same(own, other) for own, other in pairs)


def _same(own: object, other: object) -> bool:
    if isinstance(own, HeldTensor) and isinstance(other, HeldTensor):
        return np.array_equal(own.values, other.values, equal_nan=own.values.dtype.kind in "fc")
    return own == other


def _dtypes(call: PreparedCall) -> list[str]:
    return [tensor.dtype for tensor in call.tensors()]


def _selects(golden: Execution) -> bool:
    """Return whether a call chooses among elements: it returns whole numbers, of floating-point ones."""
    kinds = {value.values.dtype.kind for value in golden.outputs if isinstance(value, HeldTensor)}
    return bool(kinds & set("iu"))


def _random(call: PreparedCall, target: Execution, golden: Execution) -> Iterator[ValueJudgement]:
    for position, found in judge_random(call, target, golden):
        yield ValueJudgement(f"output.{position}", target.outputs[position], golden.outputs[position], found)


def _golden(call: PreparedCall, replayer: Replayer) -> tuple[PreparedCall, Execution, str]:
    wide = in_dtype(call, "float64")
    try:
        return wide, replayer.run(wide, GOLDEN_DEVICE), "float64"
    except CannotReplayError as error:
        less = in_dtype(call, "float32")
        try:
            return less, replayer.run(less, GOLDEN_DEVICE), "float32"
        except CannotReplayError:
            raise CannotReplayError(f"no golden result on the CPU: {error}") from error


def in_dtype(call: PreparedCall, dtype: str) -> PreparedCall:
    """Return the call with the same values in ``float64`` or ``float32`` (complex numbers accordingly)."""
    narrow = dtype == "float32"

    def wide_name(name: str) -> str:
        known = find_dtype(name)
        wide = None if known is None else _WIDE.get(known.kind)
        return name if wide is None else (_LESS_WIDE[wide] if narrow else wide)

    def change(argument: HeldTensor | Constant) -> HeldTensor | Constant:
        if isinstance(argument, HeldTensor):
            return replace(argument, values=widened(argument.values), dtype=wide_name(argument.dtype))
        return replace(argument, value=wide_name(argument.value)) if argument.kind == "dtype" else argument

    gradients = [None if each is None else change(each) for each in call.gradients]
    return replace(
        call,
        args=mapped(call.args, change),
        kwargs=mapped(call.kwargs, change),
        attributes=None if call.attributes is None else mapped(dict(call.attributes), change),
        gradients=[each if isinstance(each, HeldTensor) else None for each in gradients],
        autocast="",
    )


_SLOTS = {"outputs": "output", "gradients": "input"}


def _values(
    targets: Sequence[Any], goldens: Sequence[Any], moved: MovedCalls, part: str, conditions: bool
) -> Iterator[ValueJudgement]:
    slot = _SLOTS[part]
    for position, (target, golden) in enumerate(zip_longest(targets, goldens)):
        if target is None and golden is None:
            continue
        found = _conditioned(target, golden, moved, part, position)
        wanted = conditions and isinstance(golden, HeldTensor) and golden.values.dtype.kind in "fc"
        known = moved.first_of(part, position) if wanted else ()
        yield ValueJudgement(f"{slot}.{position}", target, golden, found, known)


def _conditioned(target: Any, golden: Any, moved: MovedCalls, part: str, position: int) -> Conditioned:
    if not isinstance(target, HeldTensor) or not isinstance(golden, HeldTensor):
        same = type(target) is type(golden) and (target == golden or (target != target and golden != golden))
        return SAME if same else OTHER
    dtype = find_dtype(target.dtype) or _INTEGER
    assert dtype is not None
    values, wanted = widened(target.values), widened(golden.values)
    first = by_rounding(values, wanted, dtype)
    if first.passes or values.shape != wanted.shape:
        return first
    found = by_condition(values, wanted, moved.of(part, position, values.size), dtype)
    if found.passes or np.isinf(found.times):
        return found
    return by_condition(values, wanted, moved.of(part, position, values.size, MORE_DRAWS), dtype)


def explain(value: ValueJudgement) -> str:
    """Return what is wrong with a value; "" where it passes."""
    found = value.conditioned
    if found.passes:
        return ""
    target, golden = value.target, value.golden
    if not isinstance(target, HeldTensor) or not isinstance(golden, HeldTensor):
        return f"{_kind(target)} on the device, {_kind(golden)} in the golden call"
    if target.values.shape != golden.values.shape:
        return f"shape {list(target.values.shape)} on the device, {list(golden.values.shape)} in the golden call"
    own, wanted = (np.ravel(each.values)[found.worst] for each in (target, golden))
    where = f"element {found.worst} is {own:.9g}, the golden one {wanted:.9g}"
    if np.isinf(found.times):
        return where
    allowed = "rounding and the condition of its inputs allow" if found.moved else "rounding allows"
    return f"{where}: {found.times:.3g} times what {allowed}"


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, HeldTensor):
        return f"a tensor of shape {list(value.values.shape)}"
    return f"{type(value).__name__} {value:.9g}" if isinstance(value, (int, float, complex)) else type(value).__name__
