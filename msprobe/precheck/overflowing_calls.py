"""Recorded calls with infinity or NaN in a result: do they overflow on every device, or on one alone?

A call runs again with its inputs on the device and on the CPU, in the recorded dtypes. What overflows on both is
normal: the numbers are too large for the dtype, or the input asks for it. Where the device is the CPU itself, the same
call in float64 takes its place, whose results are too large where the dtype cannot hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer, widened
from msprobe.core.dump.tasks.nonfinite_source import is_finite_node
from msprobe.core.store.record_walk import leaves
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.precheck.checked_call import BACKWARD, FORWARD
from msprobe.replay.cases import Case, prepare
from msprobe.replay.judged_call import in_dtype
from msprobe.replay.moved_inputs import GOLDEN_DEVICE

RESULTS = "output"


class OverflowStatus(str, Enum):
    """What is known of one pass of a call; the text is the one in the tables."""

    NORMAL = "normal"
    ABNORMAL = "abnormal"
    NOT_SEEN = "no overflow"
    SKIP = "SKIP"

    __str__ = str.__str__


@dataclass(frozen=True, slots=True)
class OverflowingCall:
    """A call: the status of both passes, and which values overflow where."""

    name: str
    forward: OverflowStatus = OverflowStatus.SKIP
    backward: OverflowStatus = OverflowStatus.SKIP
    message: str = ""

    @property
    def is_abnormal(self) -> bool:
        """Return whether the device alone overflows in one of the passes."""
        return OverflowStatus.ABNORMAL in (self.forward, self.backward)


def overflows(case: Case) -> bool:
    """Return whether a recorded call has infinity or NaN among its results or gradients."""
    records = [(FORWARD, case.forward), (BACKWARD, case.backward or {})]
    return any(
        leaf.slot.startswith(RESULTS) and isinstance(leaf.raw, dict) and not is_finite_node(leaf.raw)
        for phase, record in records
        for leaf in leaves(f"{case.name}.{phase}", record)
    )


def run_again(case: Case, replayer: Replayer, device: str, seed: int = 0) -> OverflowingCall:
    """Run a recorded call on a device and on the CPU, and tell where it overflows."""
    try:
        call = prepare(case, seed)
        own, there = replayer.run(call, device), _on_cpu(call, replayer, device)
    except CannotReplayError as error:
        return OverflowingCall(case.name, message=str(error))
    forward, said = _status(own.outputs, there.outputs, RESULTS)
    backward, said_of_gradients = _status(own.gradients, there.gradients, "gradient")
    if case.backward is None or not own.gradients:
        backward = OverflowStatus.SKIP
    return OverflowingCall(case.name, forward, backward, "; ".join((*said, *said_of_gradients)))


def _on_cpu(call: PreparedCall, replayer: Replayer, device: str) -> Execution:
    if not device.startswith(GOLDEN_DEVICE):
        try:
            return replayer.run(call, GOLDEN_DEVICE)
        except CannotReplayError:  # the CPU has no kernel of this dtype
            pass
    return replayer.run(in_dtype(call, "float64"), GOLDEN_DEVICE)


def _status(own: Sequence[object], there: Sequence[object], word: str) -> tuple[OverflowStatus, list[str]]:
    pairs = list(_overflowing(own, there))
    alone = [f"{word}.{position} overflows on the device alone" for position, both in pairs if not both]
    if alone:
        return OverflowStatus.ABNORMAL, alone
    both_said = [f"{word}.{position} overflows on both" for position, _ in pairs]
    return (OverflowStatus.NORMAL if pairs else OverflowStatus.NOT_SEEN), both_said


def _overflowing(own: Sequence[object], there: Sequence[object]) -> Iterator[tuple[int, bool]]:
    """Yield the position of each value that overflows on the device, and whether it does so in the same places on the
    CPU."""
    for position, (value, other) in enumerate(zip(own, there, strict=False)):
        if isinstance(value, HeldTensor) and isinstance(other, HeldTensor):
            odd = _odd(value, value.dtype)
            if odd.any():
                same = value.values.shape == other.values.shape and not (odd & ~_odd(other, value.dtype)).any()
                yield position, same


def _odd(value: HeldTensor, dtype: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which elements are NaN, infinite, or too large for a dtype."""
    known = find_dtype(dtype)
    if value.values.dtype.kind not in "fc" or known is None:
        return np.zeros(value.values.shape, np.bool_)
    with np.errstate(all="ignore"):
        return ~(np.abs(widened(value.values)) < known.largest * (1.0 + known.unit_roundoff))
