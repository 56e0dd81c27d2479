"""Recorded inputs in place of live ones: ``nn.Module.__call__`` is replaced once more, outside of what records it.

A replaced tensor takes over the device of the live one and whether it wants a gradient, but not its history: the
backward pass ends at it.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile_switch import is_traced, pass_by
from msprobe.adapters.pytorch.module_tap import TorchModuleTap
from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.thread import ThreadState
from msprobe.core.log import logger

_UNREADABLE = (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError)


class TorchInputTap:
    """Implements ``InputTap`` for the modules that ``modules`` has adopted."""

    def __init__(self, modules: TorchModuleTap, thread: ThreadState) -> None:
        self._modules = modules
        self._thread = thread

    @contextlib.contextmanager
    def attach(self, source: InputSource) -> Iterator[None]:
        original = nn.Module.__call__
        nn.Module.__call__ = self._fed(original, source)
        try:
            yield
        finally:
            nn.Module.__call__ = original

    def _fed(self, original: Callable[..., Any], source: InputSource) -> Callable[..., Any]:
        modules, thread = self._modules, self._thread

        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(module, *args, **kwargs)
            stem = modules.stem(module)
            name = None if stem is None else source.next_call(stem)
            if name is not None:
                busy, thread.busy = thread.busy, True
                try:
                    args = tuple(_replaced(arg, f"{name}.input.{i}", source) for i, arg in enumerate(args))
                    kwargs = {key: _replaced(arg, f"{name}.kwargs.{key}", source) for key, arg in kwargs.items()}
                    logger.info("load: %s gets recorded inputs", name)
                finally:
                    thread.busy = busy
            return original(module, *args, **kwargs)

        pass_by(call)
        return call


def _replaced(value: Any, place: str, source: InputSource) -> Any:
    """``value`` with every tensor in it replaced by the recorded one."""
    if isinstance(value, torch.Tensor):
        path = source.file(place, ".pt")
        return value if path is None else _loaded(path, place, value)
    if type(value) in (list, tuple):
        return type(value)(_replaced(part, f"{place}.{number}", source) for number, part in enumerate(value))
    if type(value) is dict:
        return {key: _replaced(part, f"{place}.{key}", source) for key, part in value.items()}
    return value


def _loaded(path: Path, place: str, live: torch.Tensor) -> torch.Tensor:
    try:
        tensor = torch.load(path, map_location=live.device, weights_only=True)
    except _UNREADABLE as error:
        logger.warning("load: %s cannot be read (%s): the live tensor is used", path, str(error).splitlines()[0])
        return live
    if not isinstance(tensor, torch.Tensor):
        logger.warning("load: %s holds no tensor: the live one is used", path)
        return live
    if tensor.shape != live.shape or tensor.dtype != live.dtype:
        logger.warning(
            "load: %s was recorded as %s %s, the live one is %s %s: the recorded one is used",
            *(place, tensor.dtype, list(tensor.shape), live.dtype, list(live.shape)),
        )
    return tensor.detach().requires_grad_(live.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))
