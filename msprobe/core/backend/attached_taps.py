"""Show the model to the taps of a backend, and attach the taps."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.patching import Undo, note_applied
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import ignored

_OWN_FRAMES = 500
"""How many frames the tool itself needs at most while it describes the values of one call."""
_limits: dict[int, int] = {}  # the limits of the program by what they were raised to


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
    taps.enter_context(_room_for_wrappers())
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


def hold_functions(backend: Backend, taps: contextlib.ExitStack) -> None:
    """Put wrappers of functions in place while nothing is observed; they pass all calls through."""
    if backend.apis is not None:
        taps.enter_context(_room_for_wrappers())
        taps.enter_context(backend.apis.attach())


@contextlib.contextmanager
def _room_for_wrappers() -> Iterator[None]:
    """Raise Python's limit of recursion inside this context, so that the program can call as deep as without the tool.

    A wrapper is one more frame of each call that it observes, of which the program itself has one at least. A limit
    that the program sets inside stays.
    """
    present = sys.getrecursionlimit()
    before = _limits.get(present, present)
    raised = 2 * before + _OWN_FRAMES
    _limits[raised] = before

    def restore() -> None:
        if sys.getrecursionlimit() == raised:
            with ignored(RecursionError):  # the program has called that deep already: it goes on
                sys.setrecursionlimit(before)

    end = Undo(restore)
    note_applied(end)
    try:
        sys.setrecursionlimit(raised)
        yield
    finally:
        end.undo()
