"""The taps of the fake framework: functions, methods, modules, optimizer steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patched_apis import WrappedApis
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.errors import MsprobeException
from tests.fake_framework import functional, nn
from tests.fake_framework.tensor import Tensor

OWNERS = {"Functional": functional, "Tensor": Tensor}
LISTED = {
    "Functional": ("relu", "linear", "mse_loss"),
    "Tensor": ("add", "mul", "mul_", "sum", "chunk", "matmul"),
}


class FakeApiTap(WrappedApis):
    """Implements ``ApiTap``."""

    def __init__(self, passes_risk: Callable[[str], bool], current: CurrentObserver, thread: ThreadState) -> None:
        super().__init__(passes_risk, current, thread)
        self._plan_table(LISTED, OWNERS)


class FakeModuleTap:
    """Implements ``ModuleTap``."""

    def __init__(self, current: CurrentObserver, thread: ThreadState) -> None:
        self._current, self._thread = current, thread
        self._sites: dict[int, tuple[nn.Module, NamedModule]] = {}
        self._unfocused: dict[int, tuple[nn.Module, NamedModule]] | None = None

    def adopt(self, model: Any) -> None:
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        for position, part in enumerate(models):
            if not isinstance(part, nn.Module):
                raise MsprobeException(0, f"start(model=...): expected a Module, got {type(part).__name__}")
            head = "Module" if part is model else f"Module.{position}"
            for path, module in part.named_modules():
                if path and id(module) not in self._sites:
                    self._register(module, f"{head}.{path}.{type(module).__name__}")

    def focus(self, module: Any, name: str) -> None:
        if self._unfocused is None:
            self._unfocused = dict(self._sites)
            self._sites.clear()
        self._register(module, f"Module.{name}.{type(module).__name__}", focused=True)

    def focus_end(self) -> None:
        if self._unfocused is not None:
            self._sites.clear()
            self._sites.update(self._unfocused)
            self._unfocused = None

    def reset(self) -> None:
        for _, site in self._sites.values():
            site.reset()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()
        patches.plan(nn.Module, "__call__", self._observed(nn.Module.__call__))
        with patches.in_force():
            yield

    def shared_parameters(self) -> list[list[str]]:
        return []

    def named_parameters(self) -> list[tuple[str, Any]]:
        return []

    def gradients(self, parameters: Sequence[Any], used_now: bool) -> list[Any] | None:
        return [parameter.grad for parameter in parameters]

    def attach_gradients(self) -> Callable[[], None]:
        detach = [
            parameter.hook(partial(self._report, site, key))
            for _, site in self._sites.values()
            for key, parameter in site.parameters()
        ]
        return lambda: [remove() for remove in detach] and None

    def _register(self, module: nn.Module, stem: str, focused: bool = False) -> None:
        entries = self._sites if self._unfocused is None or focused else self._unfocused
        entries[id(module)] = (module, NamedModule(stem, module.own_parameters))

    def _report(self, site: NamedModule, key: str, gradient: Any) -> None:
        if self._current.late_observer is not None:
            with self._thread.quiet():
                self._current.late_observer.parameter_gradient(site, key, Tensor(gradient))

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            entry, observer = self._sites.get(id(module)), self._current.observer
            if entry is None or observer is None:
                return original(module, *args, **kwargs)
            with self._thread.quiet():
                token = observer.module_begin(entry[1], args, kwargs)
            try:
                result = original(module, *args, **kwargs)
            except BaseException as error:
                with self._thread.quiet():
                    observer.module_fail(token, error)
                raise
            with self._thread.quiet():
                observer.module_end(token, result)
            return result

        return call


class FakeOptimizerTap:
    """Implements ``OptimizerTap``."""

    def __init__(self, current: CurrentObserver) -> None:
        self._current = current

    @contextlib.contextmanager
    def attach(self, scopes: bool) -> Iterator[None]:
        if not scopes:
            yield
            return
        running: list[Any] = []

        def before() -> None:
            if self._current.observer is not None:
                running.append(self._current.observer.enter("optimizer"))

        def after() -> None:
            if self._current.observer is not None and running:
                self._current.observer.leave(running.pop())

        nn.step_hooks.append((before, after))
        try:
            yield
        finally:
            nn.step_hooks.remove((before, after))
