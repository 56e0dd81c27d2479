"""Launches of Triton kernels under the prefix ``Triton``, by the name of the kernel function.

A kernel returns nothing: ``output`` holds its arguments as they are after the launch, positional ones and then keyword
values. Autotuning is part of one launch. The launch grid is no argument of the kernel and is left out.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.shown import observe_with_output
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState

PREFIX = "Triton"
_LAUNCHER = ("grid", "warmup")


class TritonTap:
    """Wraps the one method through which kernels of each kind are launched.

    Args:
        launchers: module -> its classes whose ``run`` launches a kernel. Modules are never imported here.
        recorded: the risk test over kernel names.
    """

    def __init__(
        self,
        launchers: Mapping[str, list[str]],
        recorded: Callable[[str], bool],
        relay: Relay,
        thread: ThreadState,
    ) -> None:
        self._launchers = launchers
        self._recorded = recorded
        self._relay = relay
        self._thread = thread
        self._patches = Patches()
        self._planned: set[type] = set()
        self._sites: dict[str, CallSite] = {}

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        for module, names in self._launchers.items():
            for name in names:
                self._plan(getattr(sys.modules.get(module), name, None))
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        for site in self._sites.values():
            site.reset()

    def _plan(self, launcher: Any) -> None:
        if isinstance(launcher, type) and launcher not in self._planned and callable(getattr(launcher, "run", None)):
            self._planned.add(launcher)
            self._patches.plan(launcher, "run", self._observed(launcher.run))  # type: ignore[attr-defined]

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        relay, thread = self._relay, self._thread

        @functools.wraps(original)
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            observer = relay.observer
            if thread.busy or observer is None or kwargs.get("warmup"):  # a warm-up only compiles
                return original(kernel, *args, **kwargs)
            keywords = {key: value for key, value in kwargs.items() if key not in _LAUNCHER}
            after = (*args, *keywords.values())
            call = functools.partial(original, kernel, *args, **kwargs)
            return observe_with_output(call, self._site(kernel), (args, keywords), lambda _: after, (observer, thread))

        return run

    def _site(self, kernel: Any) -> CallSite:
        name = kernel_name(kernel)
        site = self._sites.get(name)
        if site is None:
            site = self._sites.setdefault(name, CallSite(PREFIX, name))
            site.differentiable = False
            site.recorded = self._recorded(name)
        return site


def kernel_name(kernel: Any) -> str:
    """The name of the function behind tuners and heuristics, which hold what they launch as ``fn``."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", type(kernel).__name__))
