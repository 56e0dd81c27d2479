"""Rank and model calls of a torch-shaped namespace; the rest is MindSpore's."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.core.errors import MsprobeException


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
        first = model[0] if isinstance(model, (list, tuple)) and model else model
        if not isinstance(first, kind):
            raise MsprobeException(
                0, f"start(model=...): token_range counts the calls of a torch.nn.Module, got {type(first).__name__}"
            )
        return _calls_of(kind, weakref.ref(first), report)


def _calls_of(kind: Any, watched: weakref.ref[Any], report: Callable[[], None]) -> Callable[[], None]:
    """Report each call of one module until the returned function is called."""
    original = kind.__call__

    @functools.wraps(original)
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        if module is watched():
            report()
        return original(module, *args, **kwargs)

    kind.__call__ = call

    def undo() -> None:
        if kind.__call__ is call:
            kind.__call__ = original

    return undo
