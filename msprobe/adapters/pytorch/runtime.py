"""Rank, recomputation and the framework's own control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from msprobe.adapters.pytorch.counted_calls import COUNTED
from msprobe.core.dump.given_models import counted_model

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
_saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
_CHECKPOINTS = ("CheckpointFunctionBackward",)
_EARLY_EXITS = ("_StopRecomputationError",)


class TorchRuntime:
    """Implements ``Runtime``.

    Args:
        operators: operators are recorded too, so all that the backward pass calls is seen, not only what is written by
            the user.
    """

    def __init__(self, operators: bool = False) -> None:
        self._operators = operators

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return None

    def recomputing(self) -> bool:
        """Backward passes run without autograd; a recomputation enables it, or runs inside one of its two kinds."""
        if _graph_task() == -1:
            return False
        if _saved_tensor_hooks(True) is not None or _node_name() in _CHECKPOINTS:
            return True
        # operators of torch's own nodes run with autograd under create_graph
        return torch.is_grad_enabled() and (not self._operators or _is_written())

    def in_written_backward(self) -> bool:
        if _graph_task() == -1:
            return False
        return self._operators or (_is_written() and _node_name() not in _CHECKPOINTS)

    def expected(self, error: BaseException) -> bool:
        """Non-reentrant checkpointing leaves a recomputation early by raising an exception of its own."""
        return type(error).__name__ in _EARLY_EXITS

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        """Nothing hangs on the model: copies and pickles of it stay its own."""
        return COUNTED.watch(counted_model(model, torch.nn.Module, "torch.nn.Module"), report)


def _is_written() -> bool:
    """Whether the node that runs is a ``torch.autograd.Function`` of somebody."""
    return isinstance(_node(), torch.autograd.function.BackwardCFunction)


def _node_name() -> str:
    return type(_node()).__name__
