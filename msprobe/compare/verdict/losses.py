"""The losses of a step: the numbers of which gradients are computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from msprobe.compare.records.entries import is_module
from msprobe.compare.verdict.sides import Sides, Sink
from msprobe.compare.verdict.twins import EQUAL, Twins
from msprobe.core.store.record_walk import INPUT, OUTPUT
from msprobe.core.tensors.statistics import LARGEST
from msprobe.trace.leaves import as_float


class Losses:
    """The losses of both sides, and how far they are apart.

    Args:
        sides: the calls of both.
        twins: what is near enough.
        factor: by how much the gradients of the target are larger, until its optimizers get them.
    """

    def __init__(self, sides: Sides, twins: Twins, factor: float) -> None:
        self._sides, self._twins, self._factor = sides, twins, factor

    @cached_property
    def apart(self) -> float:
        """How far the losses of both sides are apart: as sums, since they add up where the passes are others, or one by
        one. What turns a loss round (a minus) may leave no record; then its gradient is turned round too. One that is
        scaled has gradients with its factor. One of several may be none: what a penalty of gradients differentiates;
        where all of one side are among those of the other one, all others."""
        if not all(self.sinks):
            return math.inf
        plain, scaled = [1.0, 1.0], [1.0 / self._factor, 1.0]
        ways = ([[one] * len(own) for one, own in zip(both, self.sinks, strict=True)] for both in (plain, scaled))
        apart = min(map(self._sums_apart, (*ways, self._signs, *self._without_one)))
        raws = [sink.raw for sinks in self.sinks for sink in sinks]
        if apart <= self._twins.allowed(*raws):
            return apart
        fewer, more = sorted(self.sinks, key=len)
        among = max(min(self._twins.distance(loss.raw, other.raw) for other in more) for loss in fewer)
        if math.isfinite(among) and len(fewer) < len(more):
            return among
        return max(self._twins.apart(side, sink.raw) for side in (0, 1) for sink in self.sinks[side])

    def _sums_apart(self, factors: Sequence[Sequence[float]]) -> float:
        """Return how far the sums of both sides are apart, relative to the larger one, with these factors."""
        values = [
            [factor * as_float(sink.raw.get(LARGEST.name)) for sink, factor in zip(sinks, own, strict=True)]
            for sinks, own in zip(self.sinks, factors, strict=True)
        ]
        size = max(sum(map(abs, one)) for one in values)
        return abs(math.fsum(values[0]) - math.fsum(values[1])) / max(size, 1e-300)

    @property
    def _without_one(self) -> Iterator[list[list[float]]]:
        """Yield the same without one of the losses of a side that has several."""
        several = ((side, number) for side, own in enumerate(self.sinks) for number in range(len(own)) if len(own) > 1)
        for side, number in several:
            factors = self._signs
            factors[side][number] = 0.0
            yield factors

    @property
    def _signs(self) -> list[list[float]]:
        """By side the sign of the gradient with which the backward pass begins at each loss."""
        return [
            [math.copysign(1.0, next(self._sides.gradients_of(side, sink.entry), 1.0)) for sink in self.sinks[side]]
            for side in (0, 1)
        ]

    @cached_property
    def sinks(self) -> tuple[list[Sink], list[Sink]]:
        target, golden = (list(self._losses(side)) for side in (0, 1))
        return target, golden

    def _losses(self, side: int) -> Iterator[Sink]:
        """Yield the numbers of which gradients are computed: results with a gradient that no later call with a gradient
        gets. Where the gradient of some of them is 1 (or -1), these are meant; of a sum and its parts the sum, as what
        gets the others leaves no record (``stack``)."""
        numbers: dict[float, Sink] = {}
        around = {self._sides.key(entry).parent for entry in self._sides.forward(side)}
        for entry in self._sides.forward(side):
            if self._sides.backward_of(entry, side) is None:
                continue
            for _, raw in self._sides.scalars(side, entry, INPUT):
                numbers.pop(as_float(raw.get(LARGEST.name)), None)
            key = self._sides.key(entry)
            if not is_module(key) or key.stem not in around:
                for row, raw in self._sides.scalars(side, entry, OUTPUT):
                    numbers[as_float(raw.get(LARGEST.name))] = Sink(entry, row, raw)
        begins = [sink for sink in numbers.values() if self._begins_with(side, sink.entry)]
        yield from _without_parts(begins) or numbers.values()

    def _begins_with(self, side: int, entry: int) -> bool:
        """Return whether a backward pass begins with the gradient of a call: it is 1, or turned round."""
        return any(abs(gradient) == 1.0 for gradient in self._sides.gradients_of(side, entry))


def _without_parts(losses: list[Sink]) -> list[Sink]:
    """Return the losses, or the one alone that is the sum of all others."""
    for number, loss in enumerate(losses if len(losses) > 2 else ()):
        others = [sink.raw for sink in (*losses[:number], *losses[number + 1 :])]
        apart = abs(
            as_float(loss.raw.get(LARGEST.name)) - math.fsum(as_float(other.get(LARGEST.name)) for other in others)
        )
        if apart <= EQUAL * sum(abs(as_float(other.get(LARGEST.name))) for other in others):
            return [loss]
    return losses
