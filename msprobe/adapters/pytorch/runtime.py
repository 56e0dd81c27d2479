"""Rank, recomputation and the framework's own control flow."""

from __future__ import annotations

import torch

_graph_task = torch._C._current_graph_task_id
_EARLY_EXITS = ("_StopRecomputationError",)


class TorchRuntime:
    """Implements ``Runtime``."""

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return None

    def recomputing(self) -> bool:
        return bool(_graph_task() != -1)

    def expected(self, error: BaseException) -> bool:
        """Non-reentrant checkpointing leaves a recomputation early by raising an exception of its own."""
        return type(error).__name__ in _EARLY_EXITS
