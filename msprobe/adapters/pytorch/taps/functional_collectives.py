"""The functional collectives of torch, recorded as ``Distributed`` like the others.

``DTensor`` and ``parallelize_module`` communicate by them. They leave their argument as it is and return the result, at
once and under way (``AsyncCollectiveTensor``); the record is completed when the program waits for it
(``tensors.in_flight``). Their group is a mesh, a list of ranks or a name; the record has the process group itself.

The module is never imported here. Each start looks for it, because it may have been imported since.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch.distributed.distributed_c10d as c10d

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS, BeginFunction
from msprobe.adapters.pytorch.compile.recompilation import traced_function
from msprobe.core.capture.collectives import CollectiveCalls, argument_named
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.wrap import Arguments
from msprobe.core.interruption import imported_whole, let_through

_MODULE = "torch.distributed._functional_collectives"
_NAMES = (
    "all_reduce",
    "broadcast",
    "all_gather_tensor",
    "all_gather_single",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "all_to_all_single",
    "permute_tensor",
)
_OF_AUTOGRAD = "_autograd"
"""The end of the names of those through which gradients flow; they are recorded under the same names."""


class FunctionalCollectives:
    """Plans the wrappers of these functions.

    Args:
        calls: makes the wrappers.
        current: holds the current observer.
        site: returns the site of the calls of a name.

    Attributes:
        compiled: what begins calls of them that run inside compiled code, by the number of the function.
    """

    def __init__(self, calls: CollectiveCalls, current: CurrentObserver, site: Callable[[str], CallSite]) -> None:
        self._calls = calls
        self._current = current
        self._site = site
        self._planned = False
        self.compiled: dict[int, BeginFunction] = {}

    def plan(self, patches: Patches) -> None:
        """Add the wrappers to ``patches`` as soon as the module is imported."""
        module = imported_whole(_MODULE)
        if self._planned or module is None or not hasattr(module, "AsyncCollectiveTensor"):
            return
        self._planned = True
        for name in _NAMES:
            for own in (name, name + _OF_AUTOGRAD):
                function = getattr(module, own, None)
                if function is not None:
                    patches.plan(module, own, self._wrapper(module, name, function))

    def _wrapper(self, module: ModuleType, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        find = argument_named("group", function)

        def group(arguments: Arguments) -> Any:
            return _process_group(module, find(arguments))

        def ranks(arguments: Arguments) -> Sequence[int] | None:
            found, asked = group(arguments), find(arguments)
            if found is None:
                return asked if isinstance(asked, list) and all(type(rank) is int for rank in asked) else None
            return c10d.get_process_group_ranks(found)

        def given(arguments: Arguments) -> Arguments:
            (positional, keywords), asked = arguments, find(arguments)
            found = group(arguments) or asked
            shown = tuple(found if each is asked else each for each in positional)
            return shown, {key: found if each is asked else each for key, each in keywords.items()}

        def end(record: Any, arguments: Arguments, result: Any) -> None:
            observer = self._current.late_observer
            if observer is not None:
                observer.end(record, result)

        def begin(observer: Any, args: Any, kwargs: Any) -> Any:
            arguments = tuple(args), kwargs
            record = observer.api_begin(self._site(name), *given(arguments))
            if record is not None:
                observer.communicates(record, ranks, arguments)
            return None if record is None else functools.partial(observer.end, record)

        number = CALLS.function_number(f"{function.__name__} of {_MODULE}")
        self.compiled[number] = begin
        traced = traced_function(function, number, in_place=False)
        return self._calls.observed(self._site(name), traced, end, function, ranks, given)


def _process_group(module: Any, group: Any) -> Any:
    """Return the process group that a mesh or a name means; None where torch does not say, or warns as for lists."""
    resolve = getattr(module, "_resolve_group", None) or getattr(module, "_resolve_group_name", None)
    if resolve is None or isinstance(group, list):
        return None
    try:
        found = resolve(group, "")
        found = c10d._resolve_process_group(found) if isinstance(found, str) else found
    except Exception as error:  # noqa: BLE001  (a group that torch refuses: the call itself says so)
        let_through(error)
        return None
    return found if isinstance(found, c10d.ProcessGroup) else None
