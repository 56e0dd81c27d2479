"""What torch itself does to spread a model over ranks: its calls are no calls of the model, and are not recorded.

FSDP copies the shards of parameters into one buffer, DTensor cuts and joins tensors, a pipeline splits batches. The
code of all that lies below ``torch.distributed``, and ``made_by_torch`` finds it in the call stack. The collectives
that it calls are recorded as those of the program are.

Before its first step a pipeline runs the stages on tensors of the right shape without values, to find out the shapes of
the results. Nothing is recorded meanwhile (``TrialRuns``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.interruption import imported_whole

COLLECTIVES = "Distributed"
"""The prefix of the records of collectives."""

_PACKAGE = "torch.distributed."
_PIPELINES = "torch.distributed.pipelining."
_BETWEEN = ("msprobe.", "torch._", "torch.autograd.", "torch.functional", "torch.fx.", "torch.utils._")
"""Modules through which a call passes on its way to a function that is recorded; DTensor tries operators on tensors
without values to learn the shapes of their results."""

_STAGES = "torch.distributed.pipelining.stage"
_TRIALS = ("_prepare_forward_infra", "_prepare_backward_infra", "_shape_inference")
_PASSED = 4
"""The frames of the tool that are always between ``made_by_torch`` and the caller of a function that is recorded."""


def made_by_torch(site: CallSite) -> bool:
    """Return whether the call of ``site`` that begins now is made by torch's own code below ``torch.distributed``.

    A loss that a pipeline was given as a function of torch is the user's, although torch calls it.
    """
    if site.prefix == COLLECTIVES:
        return False
    module = _caller(sys._getframe(_PASSED))
    return module.startswith(_PACKAGE) and (site.prefix != "Functional" or not module.startswith(_PIPELINES))


def below_distribution() -> bool:
    """Return whether torch's own code below ``torch.distributed`` makes the present call."""
    return _caller(sys._getframe(1)).startswith(_PACKAGE)


def _caller(frame: FrameType | None) -> str:
    """Return the module of the code that makes a call, behind what the call passes through on its way."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str:
            break
        if not name.startswith(_BETWEEN):
            return name
        frame = frame.f_back
    return ""


class TrialRuns:
    """Keeps the trial runs of pipelines from being observed.

    Args:
        thread: is made busy while a pipeline tries its stages.
    """

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread

    @contextlib.contextmanager
    def unobserved(self) -> Iterator[None]:
        """Observe no trial run inside this context. Stages of a module that is not imported yet make none."""
        patches = Patches()
        members = getattr(imported_whole(_STAGES), "__dict__", {}).values()
        for kind in [member for member in members if isinstance(member, type)]:
            for name in _TRIALS:
                if callable(method := vars(kind).get(name)):
                    patches.plan(kind, name, self._unobserved(method))
        with RECOMPILE_GUARD.in_force(patches):
            yield

    def _unobserved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        thread = self._thread

        @functools.wraps(original)
        def trial(*args: Any, **kwargs: Any) -> Any:
            before = thread.busy, thread.compiling
            thread.busy = thread.compiling = True
            try:
                return original(*args, **kwargs)
            finally:
                thread.busy, thread.compiling = before

        return trial
