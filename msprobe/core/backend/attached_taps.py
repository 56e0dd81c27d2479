"""Show the model to the taps of a backend, and attach the taps."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from msprobe.core.backend.protocols import Backend
from msprobe.core.errors import MsprobeException


class WantedTaps(Protocol):
    """What a plan wants recorded: calls of functions, of modules, and where both belong in the program."""

    @property
    def apis(self) -> bool: ...

    @property
    def modules(self) -> bool: ...

    @property
    def construct(self) -> bool: ...


def adopt(backend: Backend, level: str, model: Any) -> None:
    """Name the modules of ``model``. Raises MsprobeException when it is None, or no model."""
    if model is None:
        raise MsprobeException(
            0, f"level {level} needs the model: call start(model=...), or use level L1, which does not"
        )
    assert backend.modules is not None
    backend.modules.adopt(model)


def attach_taps(backend: Backend, plan: WantedTaps, taps: contextlib.ExitStack, alone: bool) -> None:
    """Attach the taps of ``backend`` that ``plan`` needs; the tap attached last sees a call first.

    Args:
        taps: detaches them when it is closed.
        alone: attach the modules only, as some of them are focused.
    """
    if alone and backend.modules is not None:
        taps.enter_context(backend.modules.attach())
        return
    if backend.collectives is not None:
        taps.enter_context(backend.collectives.attach())
    if plan.apis and backend.apis is not None:
        taps.enter_context(backend.apis.attach())
    elif backend.memory is not None:
        taps.enter_context(backend.memory())
    if plan.modules and backend.graphs is not None:
        taps.enter_context(backend.graphs.attach())
    if plan.modules and backend.modules is not None:
        taps.enter_context(backend.modules.attach())
    if backend.optimizers is not None:
        taps.enter_context(backend.optimizers.attach(scopes=plan.construct and plan.apis and plan.modules))
    if backend.operators is not None:
        taps.enter_context(backend.operators.attach())
