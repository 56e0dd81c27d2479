"""The call of a module is reported to the observer, and behaves like the original."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import Tracing, wrap_module_call


class Module:
    def forward(self, x: int, *, scale: int = 1) -> int:
        if x < 0:
            raise ValueError(x)
        return x * scale


class Events:
    """An observer of module calls that keeps what it is told; the site "skipped" is not recorded."""

    def __init__(self, thread: ThreadState) -> None:
        self.seen: list[Any] = []
        self._thread = thread

    def module_begin(self, site: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.seen.append(("begin", site, args, kwargs, bool(self._thread.busy)))
        return None if site == "skipped" else site

    def module_end(self, token: Any, result: Any) -> None:
        self.seen.append(("end", token, result, bool(self._thread.busy)))

    def module_fail(self, token: Any, error: BaseException) -> None:
        self.seen.append(("fail", token, type(error)))


class Bench:
    def __init__(self, site: Any = "site", **options: Any) -> None:
        self.thread = ThreadState()
        self.current = CurrentObserver()
        self.events = Events(self.thread)
        self.current.observer = self.events  # type: ignore[assignment]
        self.call = wrap_module_call(Module.forward, lambda module: site, self.current, self.thread, **options)


def test_a_call_is_reported_with_its_arguments_and_its_result() -> None:
    bench = Bench()
    assert bench.call(Module(), 2, scale=3) == 6
    assert bench.events.seen == [("begin", "site", (2,), {"scale": 3}, True), ("end", "site", 6, True)]
    assert not bench.thread.busy


def test_an_error_is_reported_and_raised() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="-1"):
        bench.call(Module(), -1)
    assert bench.events.seen[1:] == [("fail", "site", ValueError)]
    assert not bench.thread.busy


@pytest.mark.parametrize("site", [None, "skipped"])
def test_a_call_that_is_not_recorded_runs_alone(site: Any) -> None:
    bench = Bench(site)
    assert bench.call(Module(), 2) == 2
    assert [event[0] for event in bench.events.seen] == ["begin"] * (site is not None)


def test_without_an_observer_no_site_is_looked_up() -> None:
    call = wrap_module_call(Module.forward, lambda module: pytest.fail("looked up"), CurrentObserver(), ThreadState())
    assert call(Module(), 2) == 2
    assert call.__wrapped__ is Module.forward  # type: ignore[attr-defined]


def test_a_compiler_reads_another_call() -> None:
    traced = Tracing(lambda: True, lambda original, module, args, kwargs: ("traced", args, kwargs))
    bench = Bench(tracing=traced)
    assert bench.call(Module(), 2, scale=3) == ("traced", (2,), {"scale": 3})
    assert bench.events.seen == []


def test_the_begin_is_told_inside_a_context() -> None:
    open_contexts: list[Any] = []

    @contextlib.contextmanager
    def around(module: Any) -> Iterator[None]:
        open_contexts.append(module)
        yield

    bench = Bench(around_begin=around)
    module = Module()
    bench.call(module, 1)
    assert open_contexts == [module]
