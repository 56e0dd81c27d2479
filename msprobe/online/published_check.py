"""Policy ``reference`` of task ``free_benchmark``: the ratio of a result and that of a perturbed call, by thresholds.

With ``if_preheat`` the first steps fit the threshold of each API: step 0 counts its calls; in the following ones some
of them are compared with the CPU as well. Where ratios that agree with the CPU lie below all that do not, the smallest
of the latter is the threshold; where all agree, what exceeds 1 doubles or halves. It is never below the published one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer
from msprobe.core.config.sections import FreeBenchmarkSection
from msprobe.numerics.published.perturbed_ratio import (
    SIGN_FLIP,
    agrees_with_cpu,
    is_consistent,
    ratio_of,
    threshold_of,
)
from msprobe.online.findings import Finding
from msprobe.online.perturbations import perturbed

CPU = "cpu"
_FIRST_THRESHOLD = 2.05
_VERDICT = "inconsistent"


class PublishedCheck:
    """Judges calls by the published thresholds."""

    knows_random = True

    def __init__(self, section: FreeBenchmarkSection) -> None:
        self._mode = section.pert_mode
        self._preheat = Preheat(section.preheat_step, section.max_sample) if section.if_preheat else None

    def findings(
        self, call: PreparedCall, target: Execution | None, replayer: Replayer, device: str
    ) -> Iterator[Finding]:
        """Yield the faults of a call: of its results, or of its gradients where it has some.

        Args:
            call: the call.
            target: what the program got; None to run it on the device.
            replayer: what runs it.
            device: where the program ran it.

        Raises:
            CannotReplayError: it cannot be run again.
        """
        target = target or replayer.run(call, device)
        changed = perturbed(call, self._mode)
        if changed is None:
            return
        on_cpu = self._mode == "to_cpu"
        again = replayer.run(changed, CPU if on_cpu else device)
        sampled = self._preheat is not None and not on_cpu and self._preheat.wants(call.api)
        cpu = _on_cpu(call, replayer) if sampled else None
        backward = bool(call.gradients)
        own, other = (target.gradients, again.gradients) if backward else (target.outputs, again.outputs)
        for position, (one, two) in enumerate(zip(own, other, strict=False)):
            if not isinstance(one, HeldTensor) or not isinstance(two, HeldTensor) or one.values.dtype.kind != "f":
                continue
            if one.values.shape != two.values.shape:
                yield Finding(position, _VERDICT, f"the perturbed call returns shape {list(two.values.shape)}", "", one)
            elif on_cpu:
                if not agrees_with_cpu(one.values, two.values, one.dtype):
                    yield Finding(position, _VERDICT, "differs from the CPU", "", one)
            else:
                ratio = ratio_of(one.values, two.values, one.dtype, backward=backward)
                if cpu is not None and self._preheat is not None:
                    self._preheat.note(call.api, ratio, _agrees(one, cpu, position, backward))
                yield from self._fault(call.api, position, one, ratio)

    def end_step(self) -> None:
        """Fit the thresholds by the samples of the step."""
        if self._preheat is not None:
            self._preheat.end_step()

    def _fault(self, api: str, position: int, value: HeldTensor, ratio: float) -> Iterator[Finding]:
        threshold = threshold_of(value.dtype, self._mode)
        if self._preheat is not None:
            threshold = max(threshold, self._preheat.threshold(api))
        if ratio == SIGN_FLIP:
            yield Finding(position, _VERDICT, "elements change their sign", "symbol_flipping", value)
        elif not is_consistent(ratio, threshold):
            yield Finding(
                position, _VERDICT, f"ratio {ratio:.6g}, the threshold is {threshold:.6g}", ratio - 1.0, value
            )


def _on_cpu(call: PreparedCall, replayer: Replayer) -> Execution | None:
    changed = perturbed(call, "to_cpu")
    try:
        return None if changed is None else replayer.run(changed, CPU)
    except CannotReplayError:
        return None


def _agrees(own: HeldTensor, cpu: Execution, position: int, backward: bool) -> bool:
    values = cpu.gradients if backward else cpu.outputs
    other = values[position] if position < len(values) else None
    same_shape = isinstance(other, HeldTensor) and other.values.shape == own.values.shape
    return isinstance(other, HeldTensor) and same_shape and agrees_with_cpu(own.values, other.values, own.dtype)


@dataclass(slots=True)
class _ApiSamples:
    threshold: float = _FIRST_THRESHOLD
    agreeing: list[float] = field(default_factory=list)
    differing: list[float] = field(default_factory=list)


class Preheat:
    """Fits a threshold for each API.

    Args:
        steps: how many steps that takes, the one that counts calls not included.
        most: the most samples of an API in a step.
    """

    def __init__(self, steps: int, most: int) -> None:
        self._steps, self._most = steps, most
        self._step = 0
        self._calls: Counter[str] = Counter()
        self._sampled: Counter[str] = Counter()
        self._apis: dict[str, _ApiSamples] = {}

    def wants(self, api: str) -> bool:
        """Return whether a call is compared with the CPU; in step 0 it is counted only."""
        if self._step == 0:
            self._calls[api] += 1
            return False
        quota = min(self._most, math.ceil(self._calls[api] / self._steps))
        if self._step > self._steps or self._sampled[api] >= quota:
            return False
        self._sampled[api] += 1
        return True

    def note(self, api: str, ratio: float, agrees: bool) -> None:
        """Take a sample."""
        samples = self._apis.setdefault(api, _ApiSamples())
        (samples.agreeing if agrees else samples.differing).append(ratio)

    def threshold(self, api: str) -> float:
        """Return the threshold of an API; 1 for one that was never sampled."""
        samples = self._apis.get(api)
        return 1.0 if samples is None else samples.threshold

    def end_step(self) -> None:
        """Fit the thresholds by the samples of this step."""
        self._step += 1
        self._sampled.clear()
        for samples in self._apis.values():
            largest, smallest = max(samples.agreeing, default=0.0), min(samples.differing, default=math.inf)
            if samples.differing and largest < smallest:
                samples.threshold = smallest
            elif samples.agreeing and not samples.differing:
                beyond = samples.threshold - 1.0
                samples.threshold = 1.0 + (beyond * 2.0 if largest > samples.threshold else beyond / 2.0)
            samples.agreeing.clear()
            samples.differing.clear()
