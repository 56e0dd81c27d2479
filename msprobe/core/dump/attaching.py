"""Show the model to the taps of a backend, attach the taps, and number their calls anew."""

from __future__ import annotations

import contextlib
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.dump.plan import RecordingPlan
from msprobe.core.errors import MsprobeException


def adopt(backend: Backend, level: str, model: Any) -> None:
    """Name the modules of ``model``. Raises MsprobeException when it is None, or no model."""
    if model is None:
        raise MsprobeException(
            0, f"level {level} needs the model: call start(model=...), or use level L1, which does not"
        )
    assert backend.modules is not None
    backend.modules.adopt(model)


def attach_taps(backend: Backend, plan: RecordingPlan, taps: contextlib.ExitStack, alone: bool) -> None:
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
    if plan.modules and backend.graphs is not None:
        taps.enter_context(backend.graphs.attach())
    if plan.modules and backend.modules is not None:
        taps.enter_context(backend.modules.attach())
        if plan.construct and plan.apis and backend.optimizers is not None:
            taps.enter_context(backend.optimizers.attach())
    if backend.operators is not None:
        taps.enter_context(backend.operators.attach())


def reset_taps(backend: Backend) -> None:
    """Number calls from 0 again."""
    for tap in (backend.apis, backend.modules, backend.collectives, backend.operators):
        if tap is not None:
            tap.reset()
