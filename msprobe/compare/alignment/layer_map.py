"""What inference finds: pairs of modules with confidence and evidence, fused layers, and modules without a partner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Names = tuple[tuple[str, str], ...]

DOUBTFUL = 0.6
"""Pairs below this confidence are to be looked at by a person."""


@dataclass(frozen=True, slots=True)
class LayerPair:
    """Module ``target`` of one model stands for module ``golden`` of the other; both are paths without prefix.

    ``confidence`` is in 0..1, ``evidence`` says in words what speaks for the pair and what against it.
    ``parameters`` pairs parameter names, target first (``gamma`` with ``weight``).
    """

    target: str
    golden: str
    target_class: str
    golden_class: str
    confidence: float
    evidence: tuple[str, ...]
    parameters: Names = ()


@dataclass(frozen=True, slots=True)
class FusedPair:
    """One module on one side does the work of several on the other; exactly one of the tuples has one item."""

    target: tuple[str, ...]
    golden: tuple[str, ...]
    confidence: float
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class LayerMap:
    """The inferred map. ``target_only`` and ``golden_only`` are paths of modules without a partner, fused ones not."""

    pairs: tuple[LayerPair, ...] = ()
    fused: tuple[FusedPair, ...] = ()
    target_only: tuple[str, ...] = ()
    golden_only: tuple[str, ...] = ()

    @cached_property
    def by_target(self) -> dict[str, LayerPair]:
        """The pairs by target path."""
        return {pair.target: pair for pair in self.pairs}

    @cached_property
    def by_golden(self) -> dict[str, LayerPair]:
        """The pairs by golden path."""
        return {pair.golden: pair for pair in self.pairs}

    @property
    def doubtful(self) -> tuple[LayerPair, ...]:
        """The pairs a person should look at."""
        return tuple(pair for pair in self.pairs if pair.confidence < DOUBTFUL)
