"""Rank, recomputation and the framework's own control flow."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from msprobe.core.capture.thread import ThreadState
from msprobe.core.errors import MsprobeException

_graph_task = torch._C._current_graph_task_id
_EARLY_EXITS = ("_StopRecomputationError",)


class TorchRuntime:
    """Implements ``Runtime``."""

    def __init__(self, thread: ThreadState | None = None) -> None:
        self._thread = thread or ThreadState()

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return None

    def recomputing(self) -> bool:
        """In a backward pass, and not a part of it: what gradients need themselves (the communication of sharded
        parameters, a backward written by hand) runs without autograd and outside of modules."""
        return bool(_graph_task() != -1 and (torch.is_grad_enabled() or self._thread.scopes))

    def expected(self, error: BaseException) -> bool:
        """Non-reentrant checkpointing leaves a recomputation early by raising an exception of its own."""
        return type(error).__name__ in _EARLY_EXITS

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        """A hook on all modules, so that nothing hangs on the model: copies and pickles of it stay its own."""
        first = model[0] if isinstance(model, (list, tuple)) and model else model
        if not isinstance(first, torch.nn.Module):
            raise MsprobeException(
                0, f"start(model=...): token_range counts the calls of a torch.nn.Module, got {type(first).__name__}"
            )
        watched = weakref.ref(first)

        def before(module: torch.nn.Module, _args: Any) -> None:
            if module is watched():
                report()

        remove: Callable[[], None] = torch.nn.modules.module.register_module_forward_pre_hook(before).remove
        return remove
