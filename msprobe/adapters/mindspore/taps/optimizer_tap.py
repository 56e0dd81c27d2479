"""Optimizer steps: their settings, and the parent in construct.json of the calls they make.

Optimizers of MindSpore are cells: a step is a call with the gradients. Those of ``mindspore.nn``, and those of
``mindspore.experimental.optim``, which ``mint.optim`` uses too, are observed, with the classes of users below them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import mindspore
from mindspore import nn
from mindspore.experimental.optim import Optimizer

from msprobe.adapters.mindspore.taps.parameter_names import ParameterNames
from msprobe.core.capture.observer import CurrentObserver, Group
from msprobe.core.capture.patching import Patches

_KINDS = (nn.Optimizer, Optimizer)


class MindSporeOptimizerTap:
    """Implements ``OptimizerTap`` with a ``__call__`` of the base classes of optimizers.

    Args:
        current: holds the current observer.
        names: the names of the parameters of the adopted models.
    """

    def __init__(self, current: CurrentObserver, names: ParameterNames) -> None:
        self._current = current
        self._names = names

    @contextlib.contextmanager
    def attach(self, scopes: bool) -> Iterator[None]:
        patches = Patches()
        for kind in _KINDS:
            original = vars(kind).get("__call__", _call_of_cell)
            patches.plan(kind, "__call__", observed_step(original, self._current, self._groups, scopes))
        with patches.in_force():
            yield

    def _groups(self, optimizer: Any) -> list[Group]:
        """Return the settings of each parameter group, and the names of its parameters.

        Optimizers of ``mindspore.nn`` keep few settings as such: only a learning rate that does not change is returned.
        """
        if isinstance(optimizer, nn.Optimizer):
            rate = optimizer.learning_rate
            settings = {"lr": rate} if isinstance(rate, mindspore.Tensor) else {}
            return [(settings, self._names.of(optimizer.parameters))]
        return param_groups(optimizer, self._names)


def param_groups(optimizer: Any, names: ParameterNames) -> list[Group]:
    """Return the settings and the names of the parameters of each group in ``param_groups``."""
    return [
        ({key: value for key, value in group.items() if key != "params"}, names.of(group["params"]))
        for group in optimizer.param_groups
    ]


def observed_step(
    original: Callable[..., Any], current: CurrentObserver, groups: Callable[[Any], list[Group]], scopes: bool
) -> Callable[..., Any]:
    """Return a wrapper of the step of an optimizer: it reports the settings, and with ``scopes`` the calls inside."""

    @functools.wraps(original)
    def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        observer = current.observer
        if observer is None:
            return original(optimizer, *args, **kwargs)
        observer.optimizer_step(optimizer, groups)
        if not scopes:
            return original(optimizer, *args, **kwargs)
        record = observer.enter("optimizer")
        try:
            return original(optimizer, *args, **kwargs)
        finally:
            observer.leave(record)

    return call


@functools.wraps(nn.Cell.__call__)
def _call_of_cell(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a cell as it is called at that time: another tap may have replaced the ``__call__`` of cells since."""
    return nn.Cell.__call__(optimizer, *args, **kwargs)
