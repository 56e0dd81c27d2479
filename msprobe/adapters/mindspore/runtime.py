"""What a collection asks MindSpore's runtime: the rank, recomputation, and exceptions that are no errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from mindspore import nn
from mindspore.communication import GlobalComm, get_rank

from msprobe.adapters.mindspore.runtime_facts import recomputing
from msprobe.adapters.mindspore.taps.call_counter import calls_of
from msprobe.adapters.mindspore.versions import native_executor
from msprobe.core.dump.session.debugger import counted_model

_grad_enabled: Callable[[], bool] | None = getattr(native_executor(), "enable_grad", None)
_EARLY_EXITS = ("_StopRecomputationError", "_StopRecomputeException")


def is_scheduler() -> bool:
    """Return whether this process is the scheduler of a job, which runs no model."""
    return os.environ.get("MS_ROLE") == "MS_SCHED"


class MindSporeRuntime:
    """Implements ``Runtime``."""

    def rank(self) -> int | None:
        return int(get_rank()) if GlobalComm.INITED else None

    def recomputing(self) -> bool:
        return recomputing()

    def repeats_without_gradients(self) -> bool:
        """Return False: the gradients of a recomputed call flow through the repetition."""
        return False

    def in_written_backward(self) -> bool:
        return False

    def autocast(self) -> str | None:
        """Return None: MindSpore casts by calls that are part of the program."""
        return None

    def autograd(self) -> str | None:
        """Return ``no_grad`` under MindSpore's context of this name, which is private so far, else ``grad``.

        Whether the call belongs to a function that is differentiated is not said.
        """
        return None if _grad_enabled is None else "grad" if _grad_enabled() else "no_grad"

    def expected(self, error: BaseException) -> bool:
        return type(error).__name__ in _EARLY_EXITS

    def in_modes(self) -> bool:
        return False

    def outside_modes(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        return calls_of(nn.Cell, counted_model(model, nn.Cell, "mindspore.nn.Cell"), report)
