"""Hooks on modules: inputs and outputs of their calls, and the gradients of both.

Gradients are observed at the nodes of autograd that the call made, as in collection: nothing is put into the graph.
Calls in evaluation mode, and calls that activation checkpointing repeats, are not reported.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.adapters.pytorch.monitor.own_hook import OwnHook
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.taps.gradient_tap import TorchGradientTap
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.monitor.calls.call_gradients import CallGradients
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import ModuleReports, Remove


class ModuleHooks:
    """The hooks of a set of modules."""

    def __init__(self, reports: ModuleReports, backward: bool) -> None:
        self.errors = ErrorLog(None)
        self._reports = reports
        self._backward = backward
        self._thread = ThreadState()
        self._gradients = TorchGradientTap(self._thread)
        self._runtime = TorchRuntime()
        self._handles: list[Any] = []
        self._open: dict[int, list[Any]] = {}

    def attach(self, modules: Mapping[str, nn.Module]) -> Remove:
        """Hook these modules, by their names."""
        for name, module in modules.items():
            if self._backward:
                self._handles.append(module.register_forward_pre_hook(self._before(name), with_kwargs=True))
            hook = self._after(name)
            self._handles.append(module.register_forward_hook(hook, with_kwargs=True, always_call=True))
        return self.remove

    def remove(self) -> None:
        """Take the hooks away."""
        while self._handles:
            self._handles.pop().remove()
        self._open.clear()

    def _before(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if module.training and not is_traced() and self._reports.measures and not self._runtime.recomputing():
                self.begin(module, args, kwargs)

        return OwnHook(hook)

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if not module.training or is_traced() or self._runtime.recomputing():
                return
            opened = self._open.get(id(module))
            prepared = opened.pop() if opened else None
            failed = result is None and sys.exc_info()[0] is not None  # hooks are called for a call that raises, too
            if self._reports.measures and not failed:
                self.end(name, prepared, (args, kwargs), result)

        return OwnHook(hook)

    @unrecorded
    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note where the gradients of the inputs will flow; ``end`` of the same call uses it."""
        self._open.setdefault(id(module), []).append(self._gradients.prepare(args, kwargs))

    @unrecorded
    def end(self, name: str, prepared: Any, given: tuple[Any, Any], result: Any) -> None:
        """Report a call that has ended, and observe its gradients."""
        inputs, outputs = tensors_in(given, torch.Tensor), list(tensors_in(result, torch.Tensor))
        self._reports.forward(name, "input", list(inputs))
        self._reports.forward(name, "output", outputs)
        if prepared is not None:
            receiver = CallGradients(self._reports, name, self._gradients.template(prepared), len(outputs))
            self._gradients.attach(prepared, result, receiver)
