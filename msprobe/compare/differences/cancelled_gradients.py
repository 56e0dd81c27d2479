"""What the comparison of earlier steps knows of gradients that cancel to zero (see ``differences.cancelled``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.differences.other_updates import OtherUpdate

_PLAIN = frozenset({"SGD", "ASGD"})  # optimizers whose update is proportional to the gradient

Fingerprint = tuple[Any, ...]


@dataclass(slots=True)
class CancelledGradients:
    """What the comparison of earlier steps knows of cancelled gradients.

    Attributes:
        scales: the scales of cancelled gradients, in data units, by their fingerprints.
        moved: how much single elements of a tensor may differ, relative to its largest one, by its fingerprint.
        parameters: the parameters (stem of the module and own name) whose whole gradient cancelled.
        travelled: how far an optimizer that divides by the size of the gradient has moved the elements of a parameter,
            in data units, by the name of the parameter.
        coarsest: the unit round-off of the coarsest dtype of a call that differed.
        rounded_elsewhere: the parameters that both sides updated by other calls, by name.
    """

    scales: dict[Fingerprint, float] = field(default_factory=dict)
    moved: dict[Fingerprint, float] = field(default_factory=dict)
    parameters: set[tuple[str, str]] = field(default_factory=set)
    travelled: dict[str, float] = field(default_factory=dict)
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
            rounded_elsewhere=dict(self.rounded_elsewhere),
        )

    def add_updates(self, table: LeafTable, target: Dump, golden: Dump) -> None:
        """Add the updates of a step: the learning rates that the golden run recorded, and which parameters the sides
        updated by other calls (a loop, foreach, fused, compiled): these round elsewhere."""
        if not golden.header.get("optimizers"):
            return
        from msprobe.compare.differences.other_updates import other_updates  # where optimizers were recorded only
        from msprobe.compare.records.optimizer_steps import optimizer_steps

        self.rounded_elsewhere |= other_updates(table, target, golden)
        for step in optimizer_steps(golden):
            rate = step.learning_rate
            if rate is None or step.kind in _PLAIN:
                continue
            for name in filter(None, step.parameters):
                self.travelled[name] = self.travelled.get(name, 0.0) + abs(rate)
