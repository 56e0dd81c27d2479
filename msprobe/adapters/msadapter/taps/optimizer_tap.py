"""Steps of the optimizers in a torch-shaped namespace: their settings, and the names of their parameters.

A package that has PyTorch's global hooks of optimizer steps, as mindtorch has, is asked by them; steps that a scheduler
of learning rates has wrapped call them too. Elsewhere ``step`` of each class in ``optim`` is replaced.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from msprobe.adapters.mindspore.taps.optimizer_tap import observed_step, param_groups
from msprobe.adapters.mindspore.taps.parameter_names import ParameterNames
from msprobe.core.capture.observer import CurrentObserver, Group
from msprobe.core.capture.patching import Patches

_HOOK = "register_optimizer_step_pre_hook"


class MSAdapterOptimizerTap:
    """Implements ``OptimizerTap``. With hooks, the calls inside a step have no parent: none is called after an error.

    Args:
        torch: the torch-shaped namespace.
        current: holds the current observer.
        names: the names of the parameters of the adopted models.
    """

    def __init__(self, torch: ModuleType, current: CurrentObserver, names: ParameterNames) -> None:
        self._torch = torch
        self._current = current
        self._names = names

    @contextlib.contextmanager
    def attach(self, scopes: bool) -> Iterator[None]:
        module = sys.modules.get(f"{self._torch.__name__}.optim.optimizer")
        register = getattr(module, _HOOK, None)
        if register is None:
            with self._patches(scopes).in_force():
                yield
            return
        handle = register(self._report)
        try:
            yield
        finally:
            handle.remove()

    def _report(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        observer = self._current.observer
        if observer is not None:
            observer.optimizer_step(optimizer, self._groups)

    def _patches(self, scopes: bool) -> Patches:
        patches = Patches()
        for kind in optimizer_kinds(self._torch):
            patches.plan(kind, "step", observed_step(vars(kind)["step"], self._current, self._groups, scopes))
        return patches

    def _groups(self, optimizer: Any) -> list[Group]:
        return param_groups(optimizer, self._names) if hasattr(optimizer, "param_groups") else []


def optimizer_kinds(torch: ModuleType) -> list[type]:
    """Return the classes of optimizers of a namespace that have a ``step`` of their own."""
    namespace = getattr(torch, "optim", None)
    found = vars(namespace).values() if namespace is not None else ()
    kinds = dict.fromkeys(value for value in found if isinstance(value, type))
    return [kind for kind in kinds if callable(vars(kind).get("step"))]
