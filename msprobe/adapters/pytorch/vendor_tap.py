"""Functions of accelerator packages, by table: ``torch_npu`` under NPU, ``mindspeed.ops`` under MindSpeed.

A package is never imported here. What the program has not imported it cannot call, so each start looks what is there by
now; a function it imported by name before (``from ... import f``) is not seen, as everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.capture.dotted import find_holder
from msprobe.core.capture.look_alike import copy_signature
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.shown import observe_with_output
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState

Table = Mapping[str, Mapping[str, Any]]


class VendorTap:
    """The functions of one table.

    Args:
        table: prefix -> ``module`` (the import path), ``apis`` (names below it, dots lead into submodules) and
            ``hidden`` (API name -> positions of results that mean nothing and stand as null in the record).
        recorded: the risk test over API names.
    """

    def __init__(self, table: Table, recorded: Callable[[str], bool], relay: Relay, thread: ThreadState) -> None:
        self._table = table
        self._recorded = recorded
        self._relay = relay
        self._thread = thread
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._done: set[tuple[str, str]] = set()
        self._modules_seen = -1

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._look()
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        for site in self._sites.values():
            site.reset()

    def _look(self) -> None:
        """Plan what has become available; costs nothing while no module was imported."""
        if len(sys.modules) == self._modules_seen:
            return
        self._modules_seen = len(sys.modules)
        for prefix, vendor in self._table.items():
            module = sys.modules.get(vendor["module"])
            for name in vendor["apis"] if module is not None else ():
                if (prefix, name) not in self._done and self._plan(prefix, module, name, vendor["hidden"]):
                    self._done.add((prefix, name))

    def _plan(self, prefix: str, owner: Any, name: str, hidden: Mapping[str, Sequence[int]]) -> bool:
        owner, attribute = find_holder(owner, name)
        original = getattr(owner, attribute, None)
        if not callable(original):
            return False
        site = self._sites.setdefault((prefix, attribute), CallSite(prefix, attribute))
        site.recorded = self._recorded(attribute)
        wrapper = self._observed(original, site, frozenset(hidden.get(attribute, ())))
        self._patches.plan(owner, attribute, wrapper)
        return True

    def _observed(self, original: Any, site: CallSite, hidden: frozenset[int]) -> Callable[..., Any]:
        relay, thread = self._relay, self._thread
        shown = functools.partial(_without, hidden)

        def observed(*args: Any, **kwargs: Any) -> Any:
            observer = relay.observer
            if thread.busy or observer is None:
                return original(*args, **kwargs)
            call = functools.partial(original, *args, **kwargs)
            return observe_with_output(call, site, (args, kwargs), shown, (observer, thread))

        copy_signature(observed, original)
        return observed


def _without(hidden: frozenset[int], result: Any) -> Any:
    """The result with some of its items out of sight."""
    if not hidden or not isinstance(result, (tuple, list)):
        return result
    items = [None if position in hidden else item for position, item in enumerate(result)]
    return items if isinstance(result, list) else tuple(items)
