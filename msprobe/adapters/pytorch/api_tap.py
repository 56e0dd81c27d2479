"""The wrapped functions of PyTorch: torch, torch.Tensor, torch.nn.functional, torch._VF, and those a user registers."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from msprobe.adapters.pytorch.compile_switch import forget_wrappers, is_traced, know_originals, pass_by
from msprobe.adapters.pytorch.device_constructors import list_device_constructors
from msprobe.adapters.pytorch.scripting import show_originals
from msprobe.adapters.pytorch.silent_compiler import silent_compiler
from msprobe.adapters.pytorch.step_aside import ASIDE
from msprobe.core.capture.binding import bound_alike
from msprobe.core.capture.calling import calling
from msprobe.core.capture.dotted import find_holder
from msprobe.core.capture.look_alike import name_by_place
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
"""They may show more of an argument's memory than the argument did."""


class TorchApiTap(WrappedApis):
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix; a dotted name lies in a submodule of the prefix's owner.
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
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
        self._silence = contextlib.ExitStack()
        for table in tables:
            self._plan_table(table, OWNERS)
        for site in self._sites.values():
            site.creates = site.api not in _RESHAPING
        list_device_constructors()
        show_originals(self._patches)
        self._patches.plan(torch, "compile", self._compiling(torch.compile))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._look_for_listed()
        known = know_originals()
        try:
            with contextlib.ExitStack() as silence, ASIDE.in_force(self._patches):
                self._silence = silence
                if known:
                    silence.enter_context(silent_compiler(self._thread))
                yield
        finally:
            if not known:
                forget_wrappers()

    def _plan(self, owner: Any, name: str, prefix: str) -> Any:
        owner, attribute = find_holder(owner, name)
        original = getattr(owner, attribute, None)
        if not callable(original):
            return None
        site = self.site(prefix, attribute, name)
        site.creates = False  # a function of the user
        replacement = bound_alike(owner, attribute, functools.partial(self._observed, site), is_traced)
        wrapper = getattr(replacement, "__func__", replacement)
        pass_by(wrapper)
        name_by_place(wrapper, owner, attribute)
        self._patches.plan(owner, attribute, replacement)
        return replacement

    def _observed(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        if self._operators:
            original = calling(original, self._thread, is_traced)
        return wrap(original, site, self._relay, self._thread, is_traced)

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_knowing(*args: Any, **kwargs: Any) -> Any:
            if "torch._dynamo" not in sys.modules and self._patches.applied:
                with self._patches.out_of_sight():
                    importlib.import_module("torch._dynamo")
                    know_originals()
                ASIDE.watch()
                self._silence.enter_context(silent_compiler(self._thread))
            return original(*args, **kwargs)

        return compile_knowing
