"""Every rule of ``msprobe check``, in the order of the catalogue.

A family of rules is one file below ``rules`` with a tuple ``RULES``. Relations that were learned from a good run are
one more source of findings beside these: they take the same ``RunFacts`` (``judge`` in ``msprobe.check.job``).
"""

from __future__ import annotations

from msprobe.check.rule import Rule
from msprobe.check.rules import (
    attention,
    beginnings,
    clearing,
    copies,
    frozen_parts,
    monitored,
    number_formats,
    outside_weights,
    parameters,
    schedule,
    training_modes,
    values,
)
from msprobe.check.rules.losses import targets, terms
from msprobe.check.rules.ranks import communication, replicas, stepping

RULES: tuple[Rule, ...] = (
    *parameters.RULES,
    *clearing.RULES,
    *outside_weights.RULES,
    *replicas.RULES,
    *stepping.RULES,
    *communication.RULES,
    *schedule.RULES,
    *training_modes.RULES,
    *frozen_parts.RULES,
    *terms.RULES,
    *targets.RULES,
    *number_formats.RULES,
    *values.RULES,
    *copies.RULES,
    *attention.RULES,
    *beginnings.RULES,
    *monitored.RULES,
)
STEP_RULES = tuple(rule.of_step for rule in RULES if rule.of_step is not None)
RULE_NAMES = tuple(rule.name for rule in RULES)
