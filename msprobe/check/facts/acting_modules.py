"""Modules that act in training alone, steps that train, and the parts of a model that are frozen."""

from __future__ import annotations

import re

from msprobe.check.facts.step_facts import StepFacts

DROPOUT = re.compile(r"drop(out|path)|stochasticdepth", re.IGNORECASE)
BATCH_NORM = re.compile(r"BatchNorm|SyncBN", re.IGNORECASE)


def trains(facts: StepFacts) -> bool:
    """Return whether parameters get gradients in a step."""
    return facts.has_backward and (bool(facts.updates) or any(facts.gradients))


def frozen_parts(facts: StepFacts) -> set[str]:
    """Return the parts of the model of which no parameter needs a gradient, by the first names of their paths."""
    needs: dict[str, bool] = {}
    for name, state in facts.parameters.items():
        first = name.partition(".")[0]
        needs[first] = needs.get(first, False) or state.requires_grad
    return {first for first, needed in needs.items() if not needed} if any(needs.values()) else set()
