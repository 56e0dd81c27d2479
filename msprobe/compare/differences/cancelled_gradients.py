"""What the comparison of earlier steps knows of gradients that cancel to zero (see ``differences.cancelled``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from msprobe.compare.records.entries import EntryKey, path_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, PARAMETER, Leaf
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.trace.leaves import as_float

if TYPE_CHECKING:
    from msprobe.compare.differences.other_updates import OtherUpdate

_PLAIN = frozenset({"SGD", "ASGD"})  # optimizers whose update is proportional to the gradient

Fingerprint = tuple[Any, ...]
Extremes = tuple[float, float]


@dataclass(slots=True)
class CancelledGradients:
    """What the comparison of earlier steps knows of cancelled gradients.

    Attributes:
        scales: the scales of cancelled gradients, in data units, by their fingerprints.
        moved: how much single elements of a tensor may differ, relative to its largest one, by its fingerprint.
        parameters: the parameters (stem of the module and own name) whose whole gradient cancelled.
        travelled: how far an optimizer that divides by the size of the gradient has moved the elements of a parameter,
            in data units, by the name of the parameter (``name_of_parameter``): its learning rates, or where no
            optimizer was recorded, how far the parameter moved in the golden run.
        extremes: the largest and smallest element of each parameter of the golden run in the last step, in data units,
            by name; empty where optimizers say what they do.
        coarsest: the unit round-off of the coarsest dtype of a call that differed.
        rounded_elsewhere: the parameters that both sides updated by other calls, by name.
    """

    scales: dict[Fingerprint, float] = field(default_factory=dict)
    moved: dict[Fingerprint, float] = field(default_factory=dict)
    parameters: set[tuple[str, str]] = field(default_factory=set)
    travelled: dict[str, float] = field(default_factory=dict)
    extremes: dict[str, Extremes] = field(default_factory=dict)
    coarsest: float = 0.0
    rounded_elsewhere: dict[str, OtherUpdate] = field(default_factory=dict)

    def copy(self) -> CancelledGradients:
        """Return a copy that may be changed."""
        return replace(
            self,
            scales=dict(self.scales),
            moved=dict(self.moved),
            parameters=set(self.parameters),
            travelled=dict(self.travelled),
            extremes=dict(self.extremes),
            rounded_elsewhere=dict(self.rounded_elsewhere),
        )

    def add_updates(self, table: LeafTable, target: Dump, golden: Dump) -> None:
        """Add the updates of a step: the learning rates that the golden run recorded, and which parameters the sides
        updated by other calls (a loop, foreach, fused, compiled): these round elsewhere."""
        if not golden.header.get("optimizers"):
            self.extremes = self.extremes or _extremes(table)
            return
        from msprobe.compare.differences.other_updates import other_updates  # where optimizers were recorded only
        from msprobe.compare.records.optimizer_steps import optimizer_steps

        self.rounded_elsewhere |= other_updates(table, target, golden)
        steps = [step for step in optimizer_steps(golden) if step.kind not in _PLAIN]
        for step in steps:
            for name in filter(None, step.parameters) if step.learning_rate is not None else ():
                self.travelled[name] = self.travelled.get(name, 0.0) + abs(step.learning_rate or 0.0)
        if steps and not any(any(step.parameters) for step in steps):  # without modules, parameters have no names
            self.extremes = self.extremes or _extremes(table)

    def follow_parameters(self, table: LeafTable) -> None:
        """Add to ``travelled`` how far the parameters of the golden run have moved since the last step, where no
        optimizer says it.

        An extreme element moves as far as any other, if the step of the optimizer has one size for all. Its gradient
        may be so small that it does not; so a parameter has moved at least as far as half of all parameters.
        """
        if not self.extremes:
            return
        now = _extremes(table)
        moved = {
            name: max(abs(one - other) for one, other in zip(extremes, self.extremes[name], strict=True))
            for name, extremes in now.items()
            if name in self.extremes
        }
        usual = median(moved.values()) if moved else 0.0
        for name, distance in moved.items():
            self.travelled[name] = self.travelled.get(name, 0.0) + max(distance, usual)
        self.extremes = now


def name_of_parameter(key: EntryKey, leaf: Leaf) -> str:
    """Return the name of a parameter: that of the model, or for a call that gets it as an argument, its place there."""
    if leaf.slot == INPUT:
        return key.stem + leaf.suffix
    return in_model(key.stem, leaf.suffix.rpartition(".")[2])


def in_model(stem: str, name: str) -> str:
    """Return the name in the model of the parameter ``name`` of the module whose entries begin with ``stem``."""
    return f"{path_of(stem)}.{name}".lstrip(".")


def is_vector(raw: Mapping[str, Any]) -> bool:
    """Return whether a recorded tensor has one axis: such parameters have a sum as gradient, which may cancel."""
    return len(raw.get("shape") or ()) == 1


def _is_trained_vector(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("requires_grad")) and is_vector(raw)


def _extremes(table: LeafTable) -> dict[str, Extremes]:
    """Return the extremes of the parameters of the golden run; without modules, of the vectors with a gradient that
    calls get before the first backward pass."""
    parameters: dict[str, Extremes] = {}
    vectors: dict[str, Extremes] = {}
    first_backward = next((n for n, key in enumerate(table.keys) if key.phase == Phase.BACKWARD.value), math.inf)
    for number, key in enumerate(table.keys):
        for row in table.rows_of(number) if key.phase == Phase.FORWARD.value else ():
            leaf = table.golden[row]
            if leaf is None or leaf.slot not in (PARAMETER, INPUT) or not isinstance(leaf.raw, dict):
                continue
            found = parameters if leaf.slot == PARAMETER else vectors
            if found is vectors and (parameters or number > first_backward or not _is_trained_vector(leaf.raw)):
                continue
            extremes = as_float(leaf.raw.get(LARGEST.name)), as_float(leaf.raw.get(SMALLEST.name))
            if all(map(math.isfinite, extremes)):
                found.setdefault(name_of_parameter(key, leaf), extremes)
    return parameters or vectors
