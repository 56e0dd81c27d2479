"""The runtime of a torch-shaped namespace: its own rank and model calls; the rest is MindSpore's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.adapters.mindspore.taps.call_counter import calls_of
from msprobe.core.dump.session.debugger import counted_model


class MSAdapterRuntime(MindSporeRuntime):
    """Implements ``Runtime``."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch

    def rank(self) -> int | None:
        rank = super().rank()
        distributed: Any = getattr(self._torch, "distributed", None)
        ready = getattr(distributed, "is_initialized", None)
        return int(distributed.get_rank()) if rank is None and ready is not None and ready() else rank

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        kind = self._torch.nn.Module
        return calls_of(kind, counted_model(model, kind, "torch.nn.Module"), report)
