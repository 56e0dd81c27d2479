"""Reports the collectives of a process: functions and operators of MindSpore, replaced while they are watched.

These are ``mint.distributed``, ``communication.comm_func``, and the operators of ``ops`` by which cells such as
``nn.DistributedGradReducer`` communicate. What an asynchronous call has received is reported when the program waits.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore
from mindspore import Tensor, ops

from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.patching import Patches
from msprobe.core.interruption import ignored
from msprobe.monitor.calls.collective_calls import Waited, calling_line
from msprobe.monitor.watch import CollectiveReports, Remove

FUNCTIONS = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "gather_into_tensor",
    "scatter",
    "scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "send",
    "recv",
)
OPERATORS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AlltoAll", "Send", "Receive")
_OWNERS = ("mindspore.mint.distributed", "mindspore.communication.comm_func")
_PACKAGE = str(Path(mindspore.__file__).parent)


def watch_collectives(reports: CollectiveReports, further: Sequence[Any] = ()) -> Remove:
    """Report the arguments of each collective before it, and what it has given after it.

    Args:
        reports: takes them.
        further: namespaces of a package over MindSpore that have functions of the same names.
    """
    patches = Patches()
    busy = _Busy()
    for owner in (*_owners(), *further):
        for name in FUNCTIONS:
            original = getattr(owner, name, None)
            if callable(original):
                patches.plan(owner, name, _reported(name, original, reports, busy))
    for name in OPERATORS:
        kind = getattr(ops, name, None)
        if isinstance(kind, type):
            patches.plan(kind, "__call__", _reported(name, kind.__call__, reports, busy))
    patches.apply()
    return patches.undo


class _Busy:
    """Whether a collective is running: a function runs an operator, which is the same collective."""

    running = False


def _owners() -> Iterator[Any]:
    for path in _OWNERS:
        with ignored(ImportError):
            yield importlib.import_module(path)


def _reported(name: str, original: Callable[..., Any], reports: CollectiveReports, busy: _Busy) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if busy.running or not reports.measures:
            return original(*args, **kwargs)
        line, given = calling_line(_PACKAGE), list(tensors_in((args, kwargs), Tensor))
        reports.collective(name, line, given, True)
        busy.running = True
        try:
            result = original(*args, **kwargs)
        finally:
            busy.running = False
        got = list(tensors_in(result, Tensor)) or given

        def report() -> None:
            reports.collective(name, line, got, False)

        waiting = _with_notice(result, report)
        if waiting is result:
            report()
        return waiting

    return call


def _with_notice(result: Any, report: Callable[[], None]) -> Any:
    """Return a result whose handle reports when it is waited for; the result itself where there is no handle."""
    if hasattr(type(result), "wait"):
        return Waited(result, report)
    if isinstance(result, tuple) and any(hasattr(type(part), "wait") for part in result):
        return tuple(Waited(part, report) if hasattr(type(part), "wait") else part for part in result)
    return result
