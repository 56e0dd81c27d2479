"""What is told of each call of a function, and what records it."""

from __future__ import annotations

from typing import Any

from msprobe.core.capture.function_calls import FunctionCalls
from msprobe.core.capture.observer import CallSite, CurrentObserver

SITE = CallSite("Torch", "add")


class Recorder:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def api_begin(self, site: CallSite, args: Any, kwargs: Any) -> str:
        self.told.append(("begin", *args))
        return "token"

    def end(self, token: Any, result: Any) -> None:
        self.told.append((token, result))


def call(current: CurrentObserver, *args: Any) -> None:
    observer: Any = current.observer
    token = observer.api_begin(SITE, args, {})
    if token is not None:
        observer.end(token, "result")


def test_a_call_is_told_of_where_nothing_is_recorded() -> None:
    current, told = CurrentObserver(), list[Any]()
    FunctionCalls(current, lambda name, args, kwargs: told.append((name, args, kwargs)))
    call(current, 1)
    assert told == [(SITE.api, (1,), {})]
    assert current.observer is not None
    assert current.observer.enter("optimizer") is None


def test_the_call_that_shows_a_recorder_is_recorded() -> None:
    current, recorder = CurrentObserver(), Recorder()
    told: list[Any] = []

    def called(_name: str, args: Any, kwargs: Any) -> None:
        told.append(args)
        if not recorder.told:
            current.observer = recorder  # type: ignore[assignment]
            FunctionCalls(current, called)

    FunctionCalls(current, called)
    call(current, 1)
    call(current, 2)
    assert told == [(1,), (2,)]
    assert recorder.told == [("begin", 1), ("token", "result"), ("begin", 2), ("token", "result")]


def test_what_is_read_where_nothing_was_recorded_is_told_to_nobody() -> None:
    """As in a task that collects nothing: what was shown last only passes on."""
    current = CurrentObserver()
    FunctionCalls(current, lambda *_: None)
    current.stop()
    FunctionCalls(current, lambda *_: None)
    observer: Any = current.observer
    assert observer.value_read("item", 1.0, None) is None
