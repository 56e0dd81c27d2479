"""The modes of a thread: ``TorchDispatchMode`` and ``TorchFunctionMode`` see, and may change, each operation in it.

Some of them are torch's own: ``with torch.device(...)`` is a function mode, ``FakeTensorMode`` and that of ``make_fx``
are dispatch modes. What the tool computes must be seen by none of them, with one exception: the modes in which
``torch.compile`` traces a graph. Its functional tensors have no meaning outside of them, and what the tool adds to the
graph must get into it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from msprobe.core.capture.patching import Undo, note_applied

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._is_torch_function_mode_enabled
_mode_of: Any = getattr(torch._C, "_get_dispatch_mode", None)  # since PyTorch 2.2
_LAST: tuple[Any, ...] = () if _mode_of is None else (None,)  # the argument by which the last mode is taken off


def _of_compiler() -> int:
    """Return how many dispatch modes of this thread are those of a compiler, which lie below all others.

    It is one where tensors are functional; ``make_fx`` alone traces real or fake tensors.
    """
    if _mode_of is None:
        return 0
    key = torch._C._TorchDispatchModeKey
    if _mode_of(key.FUNCTIONAL) is None:
        return 0
    return 1 + (_mode_of(key.PROXY) is not None) + (_mode_of(key.FAKE) is not None)


def in_modes() -> bool:
    """Return whether this thread is in a mode other than those of a compiler."""
    return _function_modes() or (_dispatch_modes() > 0 and _dispatch_modes() > _of_compiler())


@contextlib.contextmanager
def outside_modes() -> Iterator[None]:
    """Take the modes of this thread off their stacks inside this context, except those whose ``ended`` becomes True.

    Those of a compiler stay. ``_disable_current_modes`` of torch takes all dispatch modes off, and imports sympy first.
    """
    functions: list[Any] = []
    dispatches: list[Any] = []
    try:
        while _function_modes():
            functions.append(torch._C._pop_torch_function_stack())
        if _dispatch_modes():
            for _ in range(_dispatch_modes() - _of_compiler()):
                dispatches.append(torch._C._pop_torch_dispatch_stack(*_LAST))
        yield
    finally:
        while dispatches:
            mode = dispatches.pop()
            if not getattr(mode, "ended", False):
                torch._C._push_on_torch_dispatch_stack(mode)
        while functions:
            torch._C._push_on_torch_function_stack(functions.pop())


@contextlib.contextmanager
def pushed_below(mode: Any) -> Iterator[None]:
    """Have a dispatch mode see operations inside this context, below the modes of the program.

    They may be left before this one. At the end its attribute ``ended`` becomes True.
    """
    note_applied(Undo(functools.partial(setattr, mode, "ended", True)))
    with outside_modes():
        torch._C._push_on_torch_dispatch_stack(mode)  # what ``__enter__`` notes besides, torch.compile reads
    try:
        yield
    finally:
        mode.ended = True
        with outside_modes():
            pass  # they are put back without it; in another thread than that of ``start`` it stays, switched off
