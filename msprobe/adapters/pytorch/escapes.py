"""The ways by which a program comes to write a tensor past its version counter, watched while calls are observed.

``x.data``, ``x.numpy()``, a pointer, a storage, DLPack: what is written there leaves ``x._version`` as it is. So who
takes one of them is noted by ``MeasuredOnce``. Pointers that compiled extensions take for themselves are not seen here;
for them there is the fingerprint.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.adapters.pytorch.measured_once import MeasuredOnce
from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.capture.look_alike import name_after_owner
from msprobe.core.capture.patch import Patches

METHODS = (
    "data_ptr",
    "const_data_ptr",
    "numpy",
    "untyped_storage",  # storage, share_memory_, pickling and deepcopy come by here
    "__dlpack__",
    "set_",
    "apply_",
    "map_",
    "map2_",
)
_PLACES: tuple[tuple[Any, str], ...] = (
    *((torch.Tensor, name) for name in METHODS),
    (torch, "to_dlpack"),
    (torch.utils.dlpack, "to_dlpack"),
    (torch._C._autograd, "_unsafe_set_version_counter"),
)


class Escapes:
    """Implements ``PackageTap``: while attached, ``memory`` is open and hears of every escape."""

    def __init__(self, memory: MeasuredOnce) -> None:
        self._memory = memory
        self._patches = Patches()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._patches = Patches()  # anew, around the wrappers of recorded calls, which stand there by now
        for owner, name in _PLACES:
            original = getattr(owner, name, None)
            if original is not None:
                told = self._telling(original)
                name_after_owner(told, owner, name)
                self._patches.plan(owner, name, told)
        self._patches.plan(torch.Tensor, "data", self._telling_data(torch.Tensor.data))
        self._patches.plan(torch.utils, "swap_tensors", self._swapping(torch.utils.swap_tensors))
        with RECOMPILE_GUARD.in_force(self):
            yield

    def apply(self) -> None:
        self._patches.apply()
        self._memory.open()

    def undo(self) -> None:
        self._memory.close()
        self._patches.undo()

    def reset(self) -> None:
        """A new step."""
        self._memory.clear()

    def _telling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        forget = self._forget

        @functools.wraps(original)
        def told(*args: Any, **kwargs: Any) -> Any:
            forget(args)
            return original(*args, **kwargs)

        return told

    def _telling_data(self, original: Any) -> property:
        forget = self._forget

        def get(tensor: torch.Tensor) -> Any:
            forget((tensor,))
            return original.__get__(tensor)

        def replace(tensor: torch.Tensor, other: Any) -> None:
            forget((tensor, other))
            original.__set__(tensor, other)

        return property(get, replace, original.__delete__, original.__doc__)

    def _swapping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Tensors that anybody holds a weak reference to are not swapped."""

        @functools.wraps(original)
        def swap(*args: Any, **kwargs: Any) -> Any:
            self._memory.clear()
            return original(*args, **kwargs)

        return swap

    def _forget(self, values: tuple[Any, ...]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                self._memory.forget(value)
            elif type(value) is tuple:
                self._forget(value)
