"""While collecting, compiled code runs in a version of its own that reports; afterwards in the one it had before.

Dynamo keeps several versions of a compiled function and runs the first whose guards hold. Every version guards on the
type of torch's tables of global module hooks, so another type for one of them, an ordered dictionary with the same
content, makes it leave the idle versions alone while we collect, and the reporting ones when we do not. Each is
compiled once, however often collecting starts and stops.
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
from msprobe.adapters.pytorch.silent_compiler import silent_compiler
from msprobe.adapters.pytorch.step_aside import ASIDE
from msprobe.core.capture.thread import Quiet, ThreadState
from msprobe.core.dump.collector import Collector

_TABLE = "_global_backward_pre_hooks"
_LOADED: list[Any] = []  # the library of operators, once made
is_traced: Callable[[], bool] = getattr(torch.compiler, "is_dynamo_compiling", lambda: False)
_is_exported: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


class SharedTable(OrderedDict[int, Any]):
    """Another table of hooks with one content: what is done to either is done to both."""

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
    return SharedTable(getattr(hooks, _TABLE))


class ReportingTable:
    """The other table in place of torch's own."""

    def __init__(self) -> None:
        self._content = getattr(hooks, _TABLE)

    def apply(self) -> None:
        setattr(hooks, _TABLE, shared_table())

    def undo(self) -> None:
        setattr(hooks, _TABLE, self._content)


def supported() -> bool:
    """Whether this torch keeps operators with an effect in order and has the table that versions guard on."""
    return hasattr(torch.library.Library, "_register_effectful_op") and isinstance(getattr(hooks, _TABLE), OrderedDict)


def reported() -> bool:
    """Asked while Dynamo traces: are our operators to be put into this graph? An exported program stays clean."""
    return bool(_LOADED) and not _is_exported()


@contextlib.contextmanager
def reporting_versions(thread: ThreadState) -> Iterator[None]:
    """Inside, code compiled before and code compiled now run in versions that report module calls."""
    with contextlib.ExitStack() as undo:
        undo.callback(name_the_original)
        if "torch._dynamo" in sys.modules:
            undo.enter_context(_prepared(thread))
        else:
            undo.enter_context(_prepared_at_need(thread, undo))
        yield


@contextlib.contextmanager
def _prepared_at_need(thread: ThreadState, undo: contextlib.ExitStack) -> Iterator[None]:
    """Importing Dynamo takes seconds: it is prepared when the program brings it in by calling ``torch.compile``."""
    original = torch.compile

    @functools.wraps(original)
    def compile_prepared(*args: Any, **kwargs: Any) -> Any:
        if torch.compile is compile_prepared:
            torch.compile = original
            undo.enter_context(_prepared(thread))
        return original(*args, **kwargs)

    torch.compile = compile_prepared
    try:
        yield
    finally:
        if torch.compile is compile_prepared:
            torch.compile = original


@contextlib.contextmanager
def _prepared(thread: ThreadState) -> Iterator[None]:
    if not supported():
        yield
        return
    name_the_original()
    if not _LOADED:
        _LOADED.append(compiled_probe.define())
        for function in (compiled_probe.enter, compiled_probe.leave):
            torch.compiler.allow_in_graph(function)
            torch.fx.node.has_side_effect(function)
        for ours in (Collector.module_begin, Quiet.__enter__, Quiet.__exit__):  # with the first, every guarded method
            pass_by(ours, inside=True)
    with ASIDE.in_force(ReportingTable()), silent_compiler(thread):
        yield


def name_the_original() -> None:
    """Dynamo keeps ``nn.Module.__call__`` as it is when Dynamo is imported; when we collect then, that is ours."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        holder = sys.modules.get(name)
        kept = getattr(holder, "unpatched_nn_module_call", None)
        if kept is not None and hasattr(kept, "__wrapped__"):
            vars(holder)["unpatched_nn_module_call"] = inspect.unwrap(kept)


def pass_by(function: Any, inside: bool = False) -> None:
    """Keep Dynamo from compiling calls of ``function``, which it meets outside of any graph (``inside``: nor what those
    call). In a graph it is traced as ever.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip, default = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip if inside else default))


def know_originals() -> bool:
    """Have Dynamo, where it is loaded, list torch's functions by identity now; called while nothing is wrapped."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.get_torch_obj_rule_map()
    return rules is not None


def forget_wrappers() -> None:
    """Dynamo was loaded while functions were wrapped, and may have listed the wrappers: it is to look again."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.clear_lru_cache()
