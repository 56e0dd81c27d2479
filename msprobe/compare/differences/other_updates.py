"""Updates of parameters that both sides make by other calls: a loop over the parameters, foreach, fused, compiled.

The calls have no partners, so the parameters of the next step decide. In a 16-bit dtype some implementations round
after each operation, and others once at the end: the elements of a parameter are apart by a few roundings. In float16,
squares of gradients below 2e-4 are zero besides: where they are stored before the root is taken, Adam divides these
gradients by its ``eps`` alone, and moves the elements much further than an implementation that stores them afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from msprobe.compare.records.entries import OPTIMIZER
from msprobe.compare.records.optimizer_steps import OptimizerStep, optimizer_steps, other_settings
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.core.tensors.dtypes import DType
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF

WITHOUT_SQUARES = 2.0**-8
"""Parameters that were updated without their squares agree as far as those of a dtype with this unit round-off."""
_ROUNDINGS = 4.0  # of the dtype of a parameter, in an element
_LOST = 2.0**-25  # squares below it are zero in float16
_LARGEST = 64.0  # learning rates: more no step of a usual size moves an element
_INDEPENDENT = 8.0  # this share of an update is left in its mean where elements move together, as in an output layer


@dataclass(frozen=True, slots=True)
class OtherUpdate:
    """What an update by other calls may change in a parameter.

    Attributes:
        largest: how far it moves an element at most whose square is lost, in data units; 0 where it takes no squares.
    """

    largest: float

    @classmethod
    def of(cls, step: OptimizerStep) -> OtherUpdate:
        """Return what one step of an optimizer may change."""
        betas, eps, rate = step.settings.get("betas"), step.settings.get("eps"), step.learning_rate
        try:
            gradient = math.sqrt(_LOST / (1.0 - float(betas[1])))  # type: ignore[index]
            return cls(abs(rate) * min(gradient / float(eps), _LARGEST))  # type: ignore[arg-type]
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            return cls(0.0)

    def rounding(self, dtype: DType | None) -> float:
        """Return how far elements may be apart by rounding, relative to the largest one; 0 in float32, whose rounding
        every comparison allows."""
        return _ROUNDINGS * dtype.unit_roundoff if _is_coarse(dtype) and dtype is not None else 0.0

    def loses_squares(self, dtype: DType | None) -> bool:
        """Return whether squares of usual gradients are zero in a dtype."""
        return self.largest > 0.0 and _is_coarse(dtype) and dtype is not None and dtype.finest > _LOST

    def without_squares(self, dtype: DType | None, numel: float, rms: float) -> float:
        """Return how far elements may be apart because squares are lost, relative to the root mean square ``rms`` (in
        data units) of a parameter of ``numel`` elements."""
        if not self.loses_squares(dtype):
            return 0.0
        return max(math.sqrt(numel) / _INDEPENDENT, 1.0) * self.largest / max(rms, 1e-300)


def _is_coarse(dtype: DType | None) -> bool:
    return dtype is not None and dtype.unit_roundoff > FLOAT32_ROUNDOFF


def other_updates(table: LeafTable, target: Dump, golden: Dump) -> dict[str, OtherUpdate]:
    """Return the parameters that both sides updated by other calls, by name.

    Optimizers of one class and with the same settings ran on both sides; one side alone makes some of the calls, or
    none are recorded, and the settings name another implementation.
    """
    ours, theirs = list(optimizer_steps(target)), list(optimizer_steps(golden))
    if not theirs or len(ours) != len(theirs):
        return {}
    if not table.updated and any(_is_other(*both) for both in zip(ours, theirs, strict=True)):
        return {}
    pairs = [pair for pair, key in zip(table.entries, table.keys, strict=True) if key.parent == OPTIMIZER]
    same_calls = (
        all(pair.of_both for pair in pairs)
        if pairs
        else [one.settings for one in ours] == [one.settings for one in theirs]
    )
    if same_calls and not table.updated:
        return {}
    return {name: OtherUpdate.of(step) for step in theirs for name in step.parameters if name is not None}


def _is_other(target: OptimizerStep, golden: OptimizerStep) -> bool:
    return target.kind != golden.kind or any(other_settings(target, golden))
