"""Observe the functions of PyTorch, those that a user registers, and those of the packages around it.

``TorchApiTap`` wraps the functions of torch, torch.Tensor, torch.nn.functional and torch._VF. ``ApiTaps`` joins it with
the taps of packages. ``TorchListedApis`` adds the APIs that the configuration lists, and all operators of
``custom_op_namespaces``; an operator that does not exist yet is looked for again at a later start:

    {"custom_op_namespaces": ["my_ops"]}                                torch.ops.my_ops.twice -> my_ops.twice.0.forward

Two parts of torch must see the original functions, not the wrappers, because they know functions by identity:

- torch's list of the functions that follow a device context (``with torch.device(...)``, ``set_default_device``). torch
  builds it when it is first needed. If it were built while functions are replaced, it would hold the wrappers, and
  until the process ends tensors would be created on the CPU, whatever the context says (``list_device_constructors``).
- TorchScript, which also reads their source and traces all calls, those of the tool included. So the originals are
  restored while it works, and replace wrappers in its arguments (``show_originals``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from msprobe.adapters.pytorch.compile.compiler_guard import unobserved_compiler
from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.recorded_names import OWNERS
from msprobe.core.backend.protocols import ApiTap
from msprobe.core.backend.support import DEFAULT_NAMESPACES
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patched_apis import ListedApis, WrappedApis
from msprobe.core.capture.patching import Patches, find_holder
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import bind_like_original, wrap
from msprobe.core.config import DumpConfig
from msprobe.core.interruption import import_whole
from msprobe.core.log import first_time, logger


class TorchApiTap(WrappedApis):
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix; a dotted name lies in a submodule of the prefix's owner.
        passes_risk: the risk test over API names; an API that fails it is counted but not recorded.
        current: holds the current observer.
        thread: is made busy while a call is observed.
        inside: makes of an original function what runs inside an observed call; without it the original runs.
        listed: the APIs that the configuration adds.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Sequence[str]]],
        passes_risk: Callable[[str], bool],
        current: CurrentObserver,
        thread: ThreadState,
        inside: Callable[[CallSite, Callable[..., Any]], Callable[..., Any]] | None = None,
        listed: ListedApis | None = None,
    ) -> None:
        super().__init__(passes_risk, current, thread, listed)
        self._inside = inside
        for table in tables:
            self._plan_table(table, OWNERS)
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
        return plan_wrapper(self._patches, owner, attribute, functools.partial(self._observed, site))

    def in_place_of(self, api: tuple[str, str], original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what records calls of ``original`` as those of the API with this prefix and name.

        Where that API is not recorded, ``original`` itself is returned.
        """
        site = self._sites.get(api)
        if site is None:
            return original
        observed = self._observed(site, original)
        patches = self._patches

        def call(*args: Any, **kwargs: Any) -> Any:
            return observed(*args, **kwargs) if patches.applied else original(*args, **kwargs)

        return call

    def _observed(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        if self._inside is not None:
            original = self._inside(site, original)
        return wrap(original, site, self._current, self._thread, is_traced)


def plan_wrapper(
    patches: Patches, owner: Any, attribute: str, observed: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Any:
    """Add a wrapper of a function of torch to ``patches`` and return it; ``observed`` makes it of the original."""

    def make() -> Any:
        replacement = bind_like_original(owner, attribute, observed, is_traced)
        skip_in_dynamo(getattr(replacement, "__func__", replacement))
        return replacement

    replacement = make()
    patches.plan(owner, attribute, replacement, make)
    return replacement


class ApiTaps:
    """Implements ``ApiTap`` with several taps.

    Args:
        torch_tap: the functions of PyTorch, and those that a user registers.
        packages: the functions of the packages around it.
    """

    def __init__(self, torch_tap: ApiTap, packages: Sequence[PackageTap]) -> None:
        self._torch_tap = torch_tap
        self._packages = packages

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with contextlib.ExitStack() as attached:
            for tap in (self._torch_tap, *self._packages):
                attached.enter_context(tap.attach())
            yield

    def reset(self) -> None:
        for tap in (self._torch_tap, *self._packages):
            tap.reset()

    def add(self, owner: Any, name: str, prefix: str) -> None:
        self._torch_tap.add(owner, name, prefix)

    def remove(self, owner: Any, name: str) -> None:
        self._torch_tap.remove(owner, name)

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        return self._torch_tap.registered()


class PackageTap(Protocol):
    """The functions of packages that may not be installed."""

    def attach(self) -> AbstractContextManager[None]:
        """Record the functions inside the context."""
        ...

    def reset(self) -> None:
        """Number the calls from 0 again."""
        ...


class TorchListedApis(ListedApis):
    """Registers the listed APIs, and the operators of the listed namespaces."""

    def __init__(self, config: DumpConfig) -> None:
        super().__init__(config)
        self._namespaces = config.custom_op_namespaces

    def _register_new(self, tap: WrappedApis) -> None:
        super()._register_new(tap)
        for namespace in self._namespaces:
            self._add_operators(tap, namespace)

    def _add_operators(self, tap: WrappedApis, namespace: str) -> None:
        head = f"{namespace}::"
        operators = torch._C._dispatch_get_all_op_names()
        names = {name[len(head) :].partition(".")[0] for name in operators if name.startswith(head)}
        if not names and namespace not in DEFAULT_NAMESPACES and first_time(("custom_op_namespaces", namespace)):
            logger.warning(
                "custom_op_namespaces: torch.ops.%s has no operators (yet); nothing of it is recorded", namespace
            )
        added = sorted(name for name in names if (head, name) not in self._registered)
        for name in added:
            owner = getattr(torch.ops, namespace)
            packet = getattr(owner, name, None)
            if packet is not None:
                for overload in packet.overloads():  # once asked for, they are attributes, which a wrapper takes over
                    getattr(packet, overload)
                tap.add_listed(owner, name, namespace)
            self._registered.add((head, name))
        if added:
            logger.info("%d operators of torch.ops.%s are recorded too", len(added), namespace)


def list_device_constructors() -> None:
    """Make torch build the list now. Call this before functions of torch are replaced; a second call costs nothing."""
    build_list = getattr(import_whole("torch.utils._device"), "_device_constructors", None)
    if build_list is not None:
        build_list()


def show_originals(patches: Patches) -> None:
    """Add replacements of TorchScript's functions to ``patches``: inside them the patches are not in place.

    A program may have looked them up before, also in the line that makes a model and so puts the patches in place: what
    they call themselves is replaced too.
    """
    for name in ("script", "trace", "trace_module"):
        original = getattr(torch.jit, name)
        home = sys.modules[original.__module__]
        replacement = _with_originals(original, patches, frames=name == "script")
        for owner in (torch.jit, home):  # pickle looks for it where it is written
            patches.plan(owner, name, replacement)
        if (inner := getattr(home, f"_{name}_impl", None)) is not None:
            patches.plan(home, f"_{name}_impl", _with_originals(inner, patches, frames=name == "script"))


def _with_originals(compiler: Callable[..., Any], patches: Patches, frames: bool = False) -> Callable[..., Any]:
    @functools.wraps(compiler)
    def with_originals(*args: Any, **kwargs: Any) -> Any:
        if frames and len(args) < 3:  # names are looked up in the frame of the caller, now one further up
            kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        with patches.suspended():
            named = zip(kwargs, _originals(kwargs.values(), patches), strict=True)
            return compiler(*_originals(args, patches), **dict(named))

    return with_originals


def _originals(values: Iterable[Any], patches: Patches) -> Iterator[Any]:
    for value in values:
        target = patches.target_of(value) if callable(value) else None
        yield value if target is None else getattr(*target)
