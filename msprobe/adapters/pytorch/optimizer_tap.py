"""Optimizer steps and gradient clipping, so that the calls they make have a parent in construct.json."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.adapters.pytorch.compile_switch import is_traced
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches

_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


class TorchOptimizerTap:
    """Implements ``OptimizerTap`` with torch's global optimizer hooks and wrapped clipping functions."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        running: list[Any] = []
        optimizers = sys.modules["torch.optim.optimizer"]  # torch.optim hides its submodule behind a function

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if self._relay.observer is not None:
                running.append(self._relay.observer.enter("optimizer"))

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if running and self._relay.observer is not None:
                self._relay.observer.leave(running.pop())

        handles = [
            optimizers.register_optimizer_step_pre_hook(before),
            optimizers.register_optimizer_step_post_hook(after),
        ]
        patches = self._clipping()
        patches.apply()
        try:
            yield
        finally:
            patches.undo()
            for handle in handles:
                handle.remove()

    def _clipping(self) -> Patches:
        patches = Patches()
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in _CLIPS:
                original = getattr(owner, name, None)
                if original is not None:
                    patches.plan(owner, name, self._inside("clip_grad", original))
        return patches

    def _inside(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(*args, **kwargs)
            observer = self._relay.observer
            if observer is None:
                return original(*args, **kwargs)
            record = observer.enter(name)
            try:
                return original(*args, **kwargs)
            finally:
                observer.leave(record)

        return call
