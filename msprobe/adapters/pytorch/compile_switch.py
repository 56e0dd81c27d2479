"""Run compiled code in a version of its own that reports module calls while collecting.

Dynamo keeps several versions of a compiled function and runs the first whose guards hold. Every version guards on the
type of torch's tables of global module hooks. While collecting, one of these tables is replaced by one of another type,
an ordered dictionary with the same content: then the versions without reports do not match, and afterwards those with
reports do not. Each version is compiled once, however often collecting starts and stops.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules import module as hooks

from msprobe.adapters.pytorch import compiled_probe
from msprobe.adapters.pytorch.silent_compiler import unobserved_compiler
from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.capture.thread import Quiet, ThreadState
from msprobe.core.dump.collector import Collector

_HOOK_TABLE = "_global_backward_pre_hooks"
_OPERATORS: list[Any] = []  # the library of operators, once it is defined
is_traced: Callable[[], bool] = getattr(torch.compiler, "is_dynamo_compiling", lambda: False)
_is_exported: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


class SharedTable(OrderedDict[int, Any]):
    """A second table of hooks over the content of the first: a change of either is a change of both."""

    def __init__(self, content: OrderedDict[int, Any]) -> None:
        super().__init__()
        self.content = content
        for name in ("get", "items", "keys", "pop", "update", "values"):
            setattr(self, name, getattr(content, name))

    def __len__(self) -> int:
        return len(self.content)

    def __iter__(self) -> Iterator[int]:
        return iter(self.content)

    def __contains__(self, key: object) -> bool:
        return key in self.content

    def __getitem__(self, key: int) -> Any:
        return self.content[key]

    def __setitem__(self, key: int, value: Any) -> None:
        self.content[key] = value

    def __delitem__(self, key: int) -> None:
        del self.content[key]


@functools.cache
def shared_table() -> SharedTable:
    """Return the table that takes the place of torch's own; always the same object."""
    return SharedTable(getattr(hooks, _HOOK_TABLE))


class ReportingTable:
    """Implements ``Replacement``: the shared table in place of torch's own."""

    def __init__(self) -> None:
        self._content = getattr(hooks, _HOOK_TABLE)

    def apply(self) -> None:
        setattr(hooks, _HOOK_TABLE, shared_table())

    def undo(self) -> None:
        setattr(hooks, _HOOK_TABLE, self._content)


def supported() -> bool:
    """Return whether this torch keeps operators with an effect in order and has the table that versions guard on."""
    return hasattr(torch.library.Library, "_register_effectful_op") and isinstance(
        getattr(hooks, _HOOK_TABLE), OrderedDict
    )


def reported() -> bool:
    """Return whether operators that report are put into the graph that Dynamo traces; an exported program has none."""
    return bool(_OPERATORS) and not _is_exported()


@contextlib.contextmanager
def reporting_versions(thread: ThreadState) -> Iterator[None]:
    """Run code compiled before and code compiled inside in versions that report module calls."""
    try:
        with RECOMPILE_GUARD.with_dynamo(lambda: _reporting(thread)):
            yield
    finally:
        restore_original_call()


@contextlib.contextmanager
def _reporting(thread: ThreadState) -> Iterator[None]:
    if not supported():
        yield
        return
    restore_original_call()
    if not _OPERATORS:
        _OPERATORS.append(compiled_probe.define())
        for function in (compiled_probe.enter, compiled_probe.leave):
            torch.compiler.allow_in_graph(function)
            torch.fx.node.has_side_effect(function)
        for method in (Collector.module_begin, Quiet.__enter__, Quiet.__exit__):  # the first: every shielded method
            skip_in_dynamo(method, inside=True)
    with RECOMPILE_GUARD.in_force(ReportingTable()), unobserved_compiler(thread):
        yield


def restore_original_call() -> None:
    """Give Dynamo torch's own ``nn.Module.__call__``: it keeps the one it finds when it is imported, maybe ours."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        holder = sys.modules.get(name)
        kept = getattr(holder, "unpatched_nn_module_call", None)
        if kept is not None and hasattr(kept, "__wrapped__"):
            vars(holder)["unpatched_nn_module_call"] = inspect.unwrap(kept)


def skip_in_dynamo(function: Any, inside: bool = False) -> None:
    """Keep Dynamo from compiling calls of ``function`` that it meets outside of any graph; in a graph it traces them.

    Args:
        inside: keep it from compiling what those calls call, too.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip, default = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip if inside else default))
