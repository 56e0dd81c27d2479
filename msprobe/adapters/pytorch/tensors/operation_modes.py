"""The modes of a thread: ``TorchDispatchMode`` and ``TorchFunctionMode`` see, and may change, each operation in it.

Two of them are torch's own: ``with torch.device(...)`` is a function mode, ``FakeTensorMode`` a dispatch mode. What the
tool computes must be seen by none of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._is_torch_function_mode_enabled


def in_modes() -> bool:
    """Return whether this thread is in a mode."""
    return _dispatch_modes() > 0 or _function_modes()


@contextlib.contextmanager
def outside_modes() -> Iterator[None]:
    """Take the modes of this thread off their stacks inside this context, except those whose ``ended`` becomes True.

    ``_disable_current_modes`` of torch does the same for dispatch modes, and imports sympy first.
    """
    functions: list[Any] = []
    dispatches: list[Any] = []
    try:
        while _function_modes():
            functions.append(torch._C._pop_torch_function_stack())
        while _dispatch_modes():
            dispatches.append(torch._C._pop_torch_dispatch_stack(None))
        yield
    finally:
        while dispatches:
            mode = dispatches.pop()
            if not getattr(mode, "ended", False):
                torch._C._push_on_torch_dispatch_stack(mode)
        while functions:
            torch._C._push_on_torch_function_stack(functions.pop())
