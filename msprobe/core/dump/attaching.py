"""What a session does with the taps of its backend: show them the model, attach them, number calls anew."""

from __future__ import annotations

import contextlib
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.dump.plan import DumpPlan
from msprobe.core.errors import MsprobeException


def adopt(backend: Backend, level: str, model: Any) -> None:
    """Name the modules of ``model``. Raises MsprobeException when there is none, or it is none."""
    if model is None:
        raise MsprobeException(
            0, f"level {level} needs the model: call start(model=...), or use level L1, which does not"
        )
    assert backend.modules is not None
    backend.modules.adopt(model)


def attach_taps(backend: Backend, plan: DumpPlan, taps: contextlib.ExitStack, alone: bool) -> None:
    """Enter into ``taps`` what ``plan`` needs of ``backend``; what comes later is seen first.

    ``alone``: modules were focused, and are all that is recorded.
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
