"""Observe functions of accelerator packages beside torch, and launches of Triton kernels.

``VendorTap`` records the functions of a table: ``torch_npu`` under the prefix NPU, ``mindspeed.ops`` under MindSpeed. A
package is never imported here: the program cannot call what it has not imported, so each start wraps the packages that
are loaded by then. A function that was imported by name before (``from ... import f``) is not seen.

``TritonTap`` records launches of Triton kernels under the prefix ``Triton``, by the name of the kernel function. A
kernel returns nothing: ``output`` holds its arguments as they are after the launch, positional ones and then keyword
values. Autotuning is part of one launch. The launch grid is no argument of the kernel and is left out.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches, find_holder
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import copy_signature, observe_with_output
from msprobe.core.interruption import imported_whole, is_being_imported

Table = Mapping[str, Mapping[str, Any]]

PREFIX = "Triton"
_LAUNCHER = ("grid", "warmup")


class VendorTap:
    """The functions of one table.

    Args:
        table: prefix -> ``module`` (the import path), ``apis`` (names below it, dots lead into submodules) and
            ``hidden`` (API name -> positions of results that mean nothing and stand as null in the record).
        passes_risk: the risk test over API names.
    """

    def __init__(
        self, table: Table, passes_risk: Callable[[str], bool], current: CurrentObserver, thread: ThreadState
    ) -> None:
        self._table = table
        self._passes_risk = passes_risk
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._wrapped: set[tuple[str, str]] = set()
        self._modules_seen = -1

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Record the functions of the packages that are loaded, inside this context."""
        self._wrap_loaded()
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Number the calls of every function from 0 again."""
        for site in self._sites.values():
            site.reset()

    def _wrap_loaded(self) -> None:
        """Plan wrappers for the packages that were loaded since; does nothing while no module was imported."""
        if len(sys.modules) == self._modules_seen:
            return
        self._modules_seen = len(sys.modules)
        for prefix, vendor in self._table.items():
            module = imported_whole(vendor["module"])
            if is_being_imported(vendor["module"]):
                self._modules_seen = -1  # another thread is at it: look again at the next start
            for name in vendor["apis"] if module is not None else ():
                if (prefix, name) not in self._wrapped and self._plan(prefix, module, name, vendor["hidden"]):
                    self._wrapped.add((prefix, name))

    def _plan(self, prefix: str, owner: Any, name: str, hidden: Mapping[str, Sequence[int]]) -> bool:
        owner, attribute = find_holder(owner, name)
        original = getattr(owner, attribute, None)
        if not callable(original):
            return False
        site = self._sites.setdefault((prefix, attribute), CallSite(prefix, attribute))
        site.passes_risk = self._passes_risk(attribute)
        wrapper = self._observed(original, site, frozenset(hidden.get(attribute, ())))
        self._patches.plan(owner, attribute, wrapper)
        return True

    def _observed(self, original: Any, site: CallSite, hidden: frozenset[int]) -> Callable[..., Any]:
        current, thread = self._current, self._thread
        make_output = functools.partial(_hide_results, hidden)

        def observed(*args: Any, **kwargs: Any) -> Any:
            observer = current.observer
            if thread.busy or observer is None:
                return original(*args, **kwargs)
            call = functools.partial(original, *args, **kwargs)
            return observe_with_output(call, site, (args, kwargs), make_output, (observer, thread))

        copy_signature(observed, original)
        return observed


def _hide_results(hidden: frozenset[int], result: Any) -> Any:
    """Return the result with None in place of its items at the positions ``hidden``."""
    if not hidden or not isinstance(result, (tuple, list)):
        return result
    items = [None if position in hidden else item for position, item in enumerate(result)]
    return items if isinstance(result, list) else tuple(items)


class TritonTap:
    """Wraps the one method through which kernels of each kind are launched.

    Args:
        launchers: module -> its classes whose ``run`` launches a kernel. Modules are never imported here.
        passes_risk: the risk test over kernel names.
    """

    def __init__(
        self,
        launchers: Mapping[str, list[str]],
        passes_risk: Callable[[str], bool],
        current: CurrentObserver,
        thread: ThreadState,
    ) -> None:
        self._launchers = launchers
        self._passes_risk = passes_risk
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._planned: set[type] = set()
        self._sites: dict[str, CallSite] = {}

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Record launches inside this context."""
        for module, names in self._launchers.items():
            for name in names:
                self._plan(getattr(imported_whole(module), name, None))
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Number the launches of every kernel from 0 again; other threads launch new ones."""
        for site in list(self._sites.values()):
            site.reset()

    def _plan(self, launcher: Any) -> None:
        if isinstance(launcher, type) and launcher not in self._planned and callable(getattr(launcher, "run", None)):
            self._planned.add(launcher)
            self._patches.plan(launcher, "run", self._observed(launcher.run))  # type: ignore[attr-defined]

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        current, thread = self._current, self._thread

        @functools.wraps(original)
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            observer = current.observer
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
            site.passes_risk = self._passes_risk(name)
        return site


def kernel_name(kernel: Any) -> str:
    """Return the name of the kernel's function; tuners and heuristics hold what they launch as ``fn``."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", type(kernel).__name__))
