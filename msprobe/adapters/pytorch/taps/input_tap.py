"""Recorded inputs in place of live ones, by one more replacement of ``nn.Module.__call__`` around the recording one.

A recorded tensor gets the device of the live one and its ``requires_grad``, but not its history: the backward pass ends
at it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.taps.module_tap import TorchModuleTap
from msprobe.adapters.pytorch.tensors.checkpoint_reader import load_failure_reason
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.session.input_override import FedInputs


class TorchInputTap:
    """Implements ``InputTap`` for the modules that ``modules`` has adopted."""

    def __init__(self, modules: TorchModuleTap, thread: ThreadState) -> None:
        self._modules = modules
        self._thread = thread
        self._inputs = FedInputs(lambda kind: issubclass(kind, torch.Tensor), ".pt", _load_like, load_failure_reason)

    @contextlib.contextmanager
    def attach(self, source: InputSource) -> Iterator[None]:
        patches = Patches()
        patches.plan(nn.Module, "__call__", self._call_with_recorded(nn.Module.__call__, source))
        with patches.in_force():
            yield

    def _call_with_recorded(self, original: Callable[..., Any], source: InputSource) -> Callable[..., Any]:
        modules, thread, inputs = self._modules, self._thread, self._inputs

        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(module, *args, **kwargs)
            stem = modules.stem(module)
            name = None if stem is None else source.next_call(stem)
            if name is not None:
                with thread.quiet(), outside_modes():
                    args, kwargs = inputs.arguments(name, args, kwargs, source)
            return original(module, *args, **kwargs)

        skip_in_dynamo(call)
        return call


def _load_like(path: Path, live: torch.Tensor) -> torch.Tensor:
    tensor = torch.load(path, map_location=live.device, weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("it holds no tensor")
    return tensor.detach().requires_grad_(live.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))
