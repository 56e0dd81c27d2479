"""Optimizer steps: their settings, and the parent in construct.json of the calls they make.

Optimizers of MindSpore are cells: a step is a call with the gradients. Those of ``mindspore.nn``, and those of
``mindspore.experimental.optim``, which ``mint.optim`` uses too, are observed, with the classes of users below them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mindspore
from mindspore import nn
from mindspore.experimental.optim import Optimizer

from msprobe.core.capture.observer import CurrentObserver, Group
from msprobe.core.capture.patching import Patches

_KINDS = (nn.Optimizer, Optimizer)


class MindSporeOptimizerTap:
    """Implements ``OptimizerTap`` with a ``__call__`` of the base classes of optimizers."""

    def __init__(self, current: CurrentObserver) -> None:
        self._current = current

    @contextlib.contextmanager
    def attach(self, scopes: bool) -> Iterator[None]:
        patches = Patches()
        for kind in _KINDS:
            patches.plan(kind, "__call__", self._observed(vars(kind).get("__call__", _call_of_cell), scopes))
        with patches.in_force():
            yield

    def _observed(self, original: Callable[..., Any], scopes: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            observer = self._current.observer
            if observer is None:
                return original(optimizer, *args, **kwargs)
            observer.optimizer_step(optimizer, _groups)
            if not scopes:
                return original(optimizer, *args, **kwargs)
            record = observer.enter("optimizer")
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                observer.leave(record)

        return call


def _groups(optimizer: Any) -> list[Group]:
    """Return the settings of each parameter group, and the names of its parameters.

    Optimizers of ``mindspore.nn`` keep few settings as such: only a learning rate that does not change is returned.
    """
    if isinstance(optimizer, nn.Optimizer):
        rate = optimizer.learning_rate
        settings = {"lr": rate} if isinstance(rate, mindspore.Tensor) else {}
        return [(settings, _names(optimizer.parameters))]
    return [
        ({key: value for key, value in group.items() if key != "params"}, _names(group["params"]))
        for group in optimizer.param_groups
    ]


def _names(parameters: Iterable[Any]) -> list[str | None]:
    return [str(parameter.name) for parameter in parameters]


def _call_of_cell(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a cell as it is called at that time: another tap may have replaced the ``__call__`` of cells since."""
    return nn.Cell.__call__(optimizer, *args, **kwargs)
