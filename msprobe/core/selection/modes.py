"""``data_mode`` as four switches: which phases and which sides of a call are recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Modes:
    """The normalised ``data_mode`` of the configuration."""

    forward: bool = True
    backward: bool = True
    input: bool = True
    output: bool = True

    @classmethod
    def of(cls, names: Iterable[str]) -> Modes:
        """Return the switches for a set of forward, backward, input, output.

        Without a phase both phases are on, without a side both sides.
        """
        chosen = set(names)
        phases = chosen & {"forward", "backward"} or {"forward", "backward"}
        sides = chosen & {"input", "output"} or {"input", "output"}
        return cls("forward" in phases, "backward" in phases, "input" in sides, "output" in sides)

    @property
    def parameters_grad(self) -> bool:
        """Whether gradients of parameters are recorded; they belong to the backward phase and to no side."""
        return self.backward
