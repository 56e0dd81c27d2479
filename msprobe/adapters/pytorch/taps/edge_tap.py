"""Observe methods of tensors that are entries of no dump, and edges between its values.

Reads take numbers out of tensors: what the program prints, returns or decides by leaves the run. Moves make views and
copies: what they return of which tensors. Other calls that move values are functions with a low risk, of which
``TorchApiTap`` reports the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced
from msprobe.adapters.pytorch.taps.api_tap import plan_wrapper
from msprobe.adapters.pytorch.tensors.transforms import below_transforms
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import copy_signature

_FEW = 512
"""Up to how many elements of a tensor are recorded as they are: those of a table, not of a layer."""
_HOLDERS = {"Tensor": torch.Tensor, "Torch": torch}
_READERS = "item", "tolist", "numpy", "__float__", "__repr__"


class TorchReadTap:
    """Tells the observer of the floating-point values that the program reads, each once: what a reader itself calls
    (``print`` reads every number of a tensor) is its own affair.

    Args:
        current: holds the current observer.
        thread: is busy while the tool itself reads.
    """

    def __init__(self, current: CurrentObserver, thread: ThreadState) -> None:
        self._current = current
        self._thread = thread
        self._patches = Patches()
        for name in _READERS:
            plan_wrapper(self._patches, torch.Tensor, name, self._reporting)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Do nothing: reads have no numbers."""

    def _reporting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        thread, current, name = self._thread, self._current, original.__name__

        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            observer = current.late_observer  # what is read after the calls is what they were made for
            if observer is None or thread.busy or thread.reads or is_traced() or not isinstance(tensor, torch.Tensor):
                return original(tensor, *args, **kwargs)
            if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
                few = tensor.dtype.is_floating_point and tensor.numel() <= _FEW
                observer.value_read(name, tensor, partial(_numbers, tensor) if few else None)
            thread.reads = True
            try:
                return original(tensor, *args, **kwargs)
            finally:
                thread.reads = False

        copy_signature(read, original)
        return read


class TorchMoveTap:
    """Tells the observer of calls that move values; what a recorded call, or a reader, moves inside is its own affair.

    Args:
        names: methods of tensors (``Tensor``) and functions of torch (``Torch``), by the first part of their names.
        current: holds the current observer.
        thread: is busy while a call is observed, or the tool itself works.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], current: CurrentObserver, thread: ThreadState) -> None:
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._sites = []
        for prefix, functions in names.items():
            for name in functions:
                site = CallSite(prefix, name)
                self._sites.append(site)
                plan_wrapper(self._patches, _HOLDERS[prefix], name, partial(self._reporting, site))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Number the calls of each method from 0 again."""
        for site in self._sites:
            site.reset()

    def _reporting(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        thread, current = self._thread, self._current

        def move(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            observer = current.observer
            if observer is not None and not (thread.busy or thread.reads or is_traced()):
                observer.value_moved(site, args, kwargs, result)
            return result

        copy_signature(move, original)
        return move


def _numbers(tensor: torch.Tensor) -> list[float]:
    numbers: list[float] = below_transforms(tensor).detach().reshape(-1).tolist()
    return numbers
