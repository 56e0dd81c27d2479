"""Wrappers for torch, torch.Tensor, torch.nn.functional, torch._VF, and the functions that a user registers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from msprobe.adapters.pytorch.compile_switch import is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.device_constructors import list_device_constructors
from msprobe.adapters.pytorch.scripting import show_originals
from msprobe.adapters.pytorch.silent_compiler import unobserved_compiler
from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.capture.binding import bind_like_original
from msprobe.core.capture.calling import mark_calling
from msprobe.core.capture.dotted import find_holder
from msprobe.core.capture.look_alike import name_after_owner
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap
from msprobe.core.capture.wrapped_apis import WrappedApis

OWNERS: Mapping[str, Any] = {
    "Functional": torch.nn.functional,
    "Tensor": torch.Tensor,
    "Torch": torch,
    "VF": torch._VF,
}


_RESHAPING = ("resize_", "resize_as_")
"""Functions whose result may show more of an argument's memory than the argument did."""


class TorchApiTap(WrappedApis):
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix; a dotted name lies in a submodule of the prefix's owner.
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
        relay: holds the observer that is told.
        thread: is made busy while a call is observed.
        operators: whether the operators inside a call are recorded too.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Sequence[str]]],
        recorded: Callable[[str], bool],
        relay: Relay,
        thread: ThreadState,
        operators: bool = False,
    ) -> None:
        super().__init__(recorded, relay, thread)
        self._operators = operators
        for table in tables:
            self._plan_table(table, OWNERS)
        for site in self._sites.values():
            site.creates = site.api not in _RESHAPING
        list_device_constructors()
        show_originals(self._patches)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._refresh_listed()
        compiler = RECOMPILE_GUARD.with_dynamo(functools.partial(unobserved_compiler, self._thread))
        with RECOMPILE_GUARD.in_force(self._patches), compiler:
            yield

    def _plan(self, owner: Any, name: str, prefix: str) -> Any:
        owner, attribute = find_holder(owner, name)
        original = getattr(owner, attribute, None)
        if not callable(original):
            return None
        site = self.site(prefix, attribute, name)
        site.creates = False  # a function of the user
        replacement = bind_like_original(owner, attribute, functools.partial(self._observed, site), is_traced)
        wrapper = getattr(replacement, "__func__", replacement)
        skip_in_dynamo(wrapper)
        name_after_owner(wrapper, owner, attribute)
        self._patches.plan(owner, attribute, replacement)
        return replacement

    def _observed(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        if self._operators:
            original = mark_calling(original, self._thread, is_traced)
        return wrap(original, site, self._relay, self._thread, is_traced)
