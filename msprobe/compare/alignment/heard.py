"""A strategy that keeps what it was asked and what it answered, for what is decided after the entries are paired."""

from __future__ import annotations

from dataclasses import dataclass, field

from msprobe.compare.alignment.protocol import SAME, Alignment, Side, Strategy


@dataclass(slots=True)
class Heard:
    """Asks ``strategy``; ``sides`` (target, golden) and ``answer`` are those of the last time."""

    strategy: Strategy
    answer: Alignment = SAME
    sides: list[Side] = field(default_factory=list)

    def align(self, target: Side, golden: Side) -> Alignment:
        self.sides = [target, golden]
        self.answer = self.strategy.align(target, golden)
        return self.answer
