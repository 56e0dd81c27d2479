"""Rank, recomputation and the framework's own control flow."""

from __future__ import annotations

import torch

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
_saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
_CHECKPOINTS = ("CheckpointFunctionBackward",)
_EARLY_EXITS = ("_StopRecomputationError",)


class TorchRuntime:
    """Implements ``Runtime``."""

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return None

    def recomputing(self) -> bool:
        """Backward passes run without autograd; a recomputation enables it, or runs inside one of its two kinds."""
        if _graph_task() == -1:
            return False
        return torch.is_grad_enabled() or _saved_tensor_hooks(True) is not None or _node_name() in _CHECKPOINTS

    def in_written_backward(self) -> bool:
        if _graph_task() == -1:
            return False
        return isinstance(_node(), torch.autograd.function.BackwardCFunction) and _node_name() not in _CHECKPOINTS

    def expected(self, error: BaseException) -> bool:
        """Non-reentrant checkpointing leaves a recomputation early by raising an exception of its own."""
        return type(error).__name__ in _EARLY_EXITS


def _node_name() -> str:
    return type(_node()).__name__
