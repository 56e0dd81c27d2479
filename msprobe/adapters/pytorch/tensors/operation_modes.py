"""The modes of a thread: ``TorchDispatchMode`` and ``TorchFunctionMode`` see, and may change, each operation in it.

Two of them are torch's own: ``with torch.device(...)`` is a function mode, ``FakeTensorMode`` a dispatch mode. What the
tool computes must be seen by none of them, with one exception: the modes by which a compiler traces. Tensors that are
being traced have no meaning outside of these, and what the tool adds to a graph must get into it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._is_torch_function_mode_enabled
_mode_of: Any = getattr(torch._C, "_get_dispatch_mode", None)  # since PyTorch 2.2
_LAST: tuple[Any, ...] = () if _mode_of is None else (None,)  # the argument by which the last mode is taken off


def _traced() -> int:
    """Return how many dispatch modes of this thread belong to a compiler that traces; they lie below all others."""
    if _mode_of is None:
        return 0
    key = torch._C._TorchDispatchModeKey
    tracing = (_mode_of(key.FUNCTIONAL) is not None) + (_mode_of(key.PROXY) is not None)
    return tracing + (_mode_of(key.FAKE) is not None) if tracing else 0


def in_modes() -> bool:
    """Return whether this thread is in a mode other than those by which a compiler traces."""
    return _function_modes() or (_dispatch_modes() > 0 and _dispatch_modes() > _traced())


@contextlib.contextmanager
def outside_modes() -> Iterator[None]:
    """Take the modes of this thread off their stacks inside this context, except those whose ``ended`` becomes True.

    Those by which a compiler traces stay. ``_disable_current_modes`` of torch does the same for dispatch modes, takes
    off the compiler's as well, and imports sympy first.
    """
    functions: list[Any] = []
    dispatches: list[Any] = []
    try:
        while _function_modes():
            functions.append(torch._C._pop_torch_function_stack())
        if _dispatch_modes():
            for _ in range(_dispatch_modes() - _traced()):
                dispatches.append(torch._C._pop_torch_dispatch_stack(*_LAST))
        yield
    finally:
        while dispatches:
            mode = dispatches.pop()
            if not getattr(mode, "ended", False):
                torch._C._push_on_torch_dispatch_stack(mode)
        while functions:
            torch._C._push_on_torch_function_stack(functions.pop())
