"""Reports the collectives of a process: functions of ``torch.distributed``, replaced while they are watched.

What an asynchronous call has received is reported when the program waits for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.patching import Patches
from msprobe.monitor.calls.collective_calls import Waited, calling_line
from msprobe.monitor.watch import CollectiveReports, Remove

WATCHED = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "send",
    "recv",
)
"""The functions that the published monitor watches, and the tensor forms that replaced them."""
_OWNERS = (torch.distributed, c10d)
_SKIPPED = str(Path(torch.distributed.__file__).parent)


def watch_collectives(reports: CollectiveReports) -> Remove:
    """Report the arguments of each collective before and after it."""
    patches = Patches()
    for name in WATCHED:
        wrappers: dict[int, Callable[..., Any]] = {}
        for owner in _OWNERS:
            original = getattr(owner, name, None)
            if original is not None:
                wrapper = wrappers.setdefault(id(original), _reported(name, original, reports))
                patches.plan(owner, name, wrapper)
    context = patches.in_force()
    context.__enter__()
    ended = False

    def remove() -> None:
        nonlocal ended
        if not ended:
            ended = True
            context.__exit__(None, None, None)

    return remove


def _reported(name: str, original: Callable[..., Any], reports: CollectiveReports) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced() or not reports.measures:
            return original(*args, **kwargs)
        line, tensors = calling_line(_SKIPPED), list(tensors_in((args, kwargs), torch.Tensor))
        reports.collective(name, line, tensors, True)
        work = original(*args, **kwargs)
        if isinstance(work, c10d.Work):
            return Waited(work, lambda: reports.collective(name, line, tensors, False))
        reports.collective(name, line, tensors, False)
        return work

    return call
