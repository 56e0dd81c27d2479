"""The result of layer inference: pairs of modules with confidence and evidence, fused layers, and modules without a
partner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

DOUBTFUL = 0.6
"""The confidence below which a person should check a pair."""


@dataclass(frozen=True, slots=True)
class LayerPair:
    """A module of the target that stands for a module of the golden run.

    Args:
        target: the path of the module of the target, without prefix and class.
        golden: the path of the module of the golden run.
        target_class: the class of the former.
        golden_class: the class of the latter.
        confidence: how sure the pair is, from 0 to 1.
        evidence: in words, what speaks for the pair and what against it.
        parameters: pairs of parameter names, target first (``gamma`` with ``weight``).
    """

    target: str
    golden: str
    target_class: str
    golden_class: str
    confidence: float
    evidence: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FusedPair:
    """A module of one side that does the work of several modules of the other.

    Args:
        target: the paths of the modules of the target.
        golden: the paths of the modules of the golden run. Exactly one of the two tuples has one item.
        confidence: how sure this is, from 0 to 1.
        evidence: in words, what speaks for it.
    """

    target: tuple[str, ...]
    golden: tuple[str, ...]
    confidence: float
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class LayerMap:
    """Which modules of two models stand for each other.

    Args:
        pairs: the paired modules, in the order of the target.
        fused: the fused modules, which are in no pair.
        target_only: the paths of all other modules of the target.
        golden_only: those of the golden run.
    """

    pairs: tuple[LayerPair, ...] = ()
    fused: tuple[FusedPair, ...] = ()
    target_only: tuple[str, ...] = ()
    golden_only: tuple[str, ...] = ()

    @cached_property
    def by_target(self) -> dict[str, LayerPair]:
        """Return the pairs by the path of the target."""
        return {pair.target: pair for pair in self.pairs}

    @property
    def doubtful(self) -> tuple[LayerPair, ...]:
        """Return the pairs that a person should check."""
        return tuple(pair for pair in self.pairs if pair.confidence < DOUBTFUL)
