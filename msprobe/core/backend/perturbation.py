"""The capability behind the key ``perturb``: values that go into a model, moved by one unit round-off.

What such a run has otherwise than an ordinary one is what rounding does to it (``msprobe noise --perturb``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from msprobe.core.errors import MsprobeException


class Perturbation(Protocol):
    """Moves parameters and inputs of models. It keeps the models that it has moved."""

    def move_parameters(self, model: Any) -> None:
        """Move the parameters of a model, or of each of a list of models, whose parameters have not been moved."""
        ...

    def attach(self) -> AbstractContextManager[None]:
        """Move the inputs of each call of these models inside the returned context."""
        ...

    def take_over(self, earlier: Any) -> None:
        """Continue for a perturbation of the same framework, or for None: do not move its models again."""
        ...


def perturb(perturbation: Perturbation | None, model: Any) -> None:
    """Move the parameters of ``model``; without a perturbation nothing happens.

    Raises:
        MsprobeException: ``model`` is None, or no model.
    """
    if perturbation is None:
        return
    if model is None:
        raise MsprobeException(0, "perturb moves parameters and inputs of the model: call start(model=...)")
    perturbation.move_parameters(model)
