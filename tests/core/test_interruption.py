"""What a signal handler, a trace function or another thread raises is told from what the code itself raises."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from msprobe.core.interruption import is_from_outside, let_through


class Late(Exception):
    pass


def caught(call: Callable[[], Any]) -> Exception:
    """Return what ``call`` raises."""
    with pytest.raises(Exception) as raised:
        call()
    return raised.value


@pytest.fixture
def alarm() -> Iterator[Callable[[Any], None]]:
    """Sets the handler of the signal that ``interrupted`` sends."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def interrupted() -> None:
    len(str(signal.raise_signal(signal.SIGUSR1)))


def inside_library() -> None:
    sorted([2, 1], key=lambda number: interrupted())  # type: ignore[arg-type, return-value]


def by_function(number: int, frame: FrameType | None) -> None:
    raise Late


def by_any_arguments(*given: Any) -> None:
    by_function(*given)


class Handler:
    def method(self, number: int, frame: FrameType | None) -> None:
        raise TimeoutError("late")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise KeyError(number)


@pytest.mark.parametrize("handler", [by_function, by_any_arguments, Handler().method, Handler()])
@pytest.mark.parametrize("work", [interrupted, inside_library])
def test_what_a_handler_raises_is_from_outside(
    handler: Any, work: Callable[[], None], alarm: Callable[[Any], None]
) -> None:
    alarm(handler)
    assert is_from_outside(caught(work))


def test_what_a_trace_function_raises_is_from_outside() -> None:
    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is interrupted.__code__:
            raise Late
        return None

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        error = caught(interrupted)
    finally:
        sys.settrace(before)
    assert is_from_outside(error)


@pytest.mark.parametrize("kind", [Late, TimeoutError, RuntimeError])
def test_what_another_thread_sends_is_from_outside(kind: type[Exception]) -> None:
    began, errors = threading.Event(), []

    def work() -> None:
        number = 0
        try:
            began.set()
            while True:
                number += 1
        except Exception as error:  # noqa: BLE001  (what was sent)
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind))
    thread.join()
    assert [type(error) for error in errors] == [kind]
    assert is_from_outside(errors[0])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_ends_a_program_is_from_outside(error: BaseException) -> None:
    assert is_from_outside(error)


class Hostile:
    def __iter__(self) -> Any:
        raise Late("mine")

    def __str__(self) -> str:
        raise TimeoutError


def takes_a_frame(frame: FrameType) -> None:
    raise Late


WORK: dict[str, Callable[[], Any]] = {
    "a class of the program": lambda: list(Hostile()),
    "its text": lambda: str(Hostile()),
    "C code": lambda: int("x"),
    "an item": lambda: {}["absent"],
    "an end": lambda: next(iter(())),
    "an attribute": lambda: None.absent,  # type: ignore[attr-defined]
    "a function that is given a frame": lambda: takes_a_frame(sys._getframe()),
}


@pytest.mark.parametrize("name", WORK)
def test_what_the_code_causes_is_not(name: str) -> None:
    error = caught(WORK[name])
    assert not is_from_outside(error)
    let_through(error)


def test_only_what_is_from_outside_is_raised_again(alarm: Callable[[Any], None]) -> None:
    alarm(by_function)
    error = caught(interrupted)
    with pytest.raises(Late) as raised:
        let_through(error)
    assert raised.value is error


def test_an_error_without_a_trace_is_not_from_outside() -> None:
    assert not is_from_outside(Late())
