"""Optimizer steps, so that the calls they make have a parent in construct.json.

Optimizers of MindSpore are cells: a step is a call with the gradients. Those of ``mindspore.nn``, and those of
``mindspore.experimental.optim``, which ``mint.optim`` uses too, are observed, with the classes of users below them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from mindspore import nn
from mindspore.experimental.optim import Optimizer

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches

_KINDS = (nn.Optimizer, Optimizer)


class MindSporeOptimizerTap:
    """Implements ``OptimizerTap`` with a ``__call__`` of the base classes of optimizers."""

    def __init__(self, current: CurrentObserver) -> None:
        self._current = current

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()
        for kind in _KINDS:
            patches.plan(kind, "__call__", self._scoped(vars(kind).get("__call__", _call_of_cell)))
        with patches.in_force():
            yield

    def _scoped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            observer = self._current.observer
            if observer is None:
                return original(optimizer, *args, **kwargs)
            record = observer.enter("optimizer")
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                observer.leave(record)

        return call


def _call_of_cell(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a cell as it is called at that time: another tap may have replaced the ``__call__`` of cells since."""
    return nn.Cell.__call__(optimizer, *args, **kwargs)
