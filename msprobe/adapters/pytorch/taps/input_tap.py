"""Recorded inputs in place of live ones, by one more replacement of ``nn.Module.__call__`` around the recording one.

A recorded tensor gets the device of the live one and its ``requires_grad``, but not its history: the backward pass ends
at it. Where every module is fed, the gradient goes on to the live tensor, so that all gradients are computed, and the
recorded tensor knows how far the live one was from it.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.checkpoints.checkpoint_reader import load_failure_reason
from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.taps.module_tap import TorchModuleTap
from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.slots import place_of
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.declared_shards import note_fed
from msprobe.core.dump.session.input_override import FedInputs


class TorchInputTap:
    """Implements ``InputTap`` for the modules that ``modules`` has adopted."""

    def __init__(self, modules: TorchModuleTap, thread: ThreadState) -> None:
        self._modules = modules
        self._thread = thread
        self._inputs = FedInputs(_is_whole, ".pt", _load, _adopt, load_failure_reason)

    @contextlib.contextmanager
    def attach(self, source: InputSource) -> Iterator[None]:
        patches = Patches()
        place = place_of(nn.Module, "__call__")
        patches.plan(*place, self._call_with_recorded(getattr(*place), source))
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


def _is_whole(kind: type) -> bool:
    """Return whether tensors of a type are whole: of a DTensor, which lies on several ranks, nothing is replaced."""
    return issubclass(kind, torch.Tensor) and kind.__name__ != "DTensor"


def _load(path: Path, live: torch.Tensor) -> torch.Tensor:
    tensor = torch.load(path, map_location=live.device, weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("it holds no tensor")
    return tensor.detach()


def _adopt(tensor: torch.Tensor, live: torch.Tensor, through: bool) -> torch.Tensor:
    differentiable = live.requires_grad and (tensor.is_floating_point() or tensor.is_complex())
    if not through:
        return tensor.requires_grad_(differentiable)
    distance = _distance(tensor, live)
    if differentiable and tensor.shape == live.shape:
        fed: torch.Tensor = _InPlaceOf.apply(live, tensor)
    else:
        fed = tensor.contiguous().requires_grad_(differentiable)
    note_fed(fed, distance)
    return fed


class _InPlaceOf(torch.autograd.Function):
    """The recorded tensor, whose gradient is that of the live one."""

    @staticmethod
    def forward(ctx: Any, live: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
        return recorded.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def _distance(recorded: torch.Tensor, live: torch.Tensor) -> float:
    """Return the largest difference of the live tensor, in units of the largest recorded element."""
    if recorded.shape != live.shape:
        return math.inf
    if not recorded.numel():
        return 0.0
    with WithoutAutograd():
        one, other = (each.abs() if each.is_complex() else each for each in (recorded, live))
        one, other = one.double(), other.double()
        apart = torch.where(one == other, 0.0, (one - other).abs()).nan_to_num(nan=math.inf).max().item()
    return float(apart) / (float(one.abs().nan_to_num(posinf=0.0).max().item()) or 1.0)
