"""What a signal handler, a trace function or another thread raises is told from what the code itself raises."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from msprobe.core.interruption import (
    from_outside,
    ignored,
    import_whole,
    imported_whole,
    is_being_imported,
    let_through,
    passes_on,
)
from tests.rules.tree import label, sources


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
    assert from_outside(caught(work))


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
    assert from_outside(error)


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
    assert from_outside(errors[0])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_ends_a_program_is_from_outside(error: BaseException) -> None:
    assert from_outside(error)


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
    assert not from_outside(error)
    let_through(error)


def test_only_what_is_from_outside_is_raised_again(alarm: Callable[[Any], None]) -> None:
    alarm(by_function)
    error = caught(interrupted)
    with pytest.raises(Late) as raised:
        let_through(error)
    assert raised.value is error


def test_an_error_without_a_trace_is_not_from_outside() -> None:
    assert not from_outside(Late())


KINDS = [StopIteration, StopAsyncIteration, OSError, AttributeError, KeyError, RuntimeError, ImportError, Late]


def numbers() -> Iterator[int]:
    interrupted()
    yield 1


@contextlib.contextmanager
def held() -> Iterator[None]:
    interrupted()
    yield


def in_a_generator() -> None:
    list(numbers())


def in_a_context() -> None:
    with held():
        raise AssertionError


def as_an_own_error() -> None:
    try:
        interrupted()
    except Exception as error:
        raise ValueError("cannot be read") from error


def while_cleaning_up() -> None:
    try:
        interrupted()
    finally:
        raise ValueError("cannot be closed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", [interrupted, in_a_generator, in_a_context, as_an_own_error, while_cleaning_up])
def test_what_is_made_of_it_counts_as_what_it_was(
    work: Callable[[], None], kind: type[Exception], alarm: Callable[[Any], None]
) -> None:
    raised = kind("late")

    def handler(number: int, frame: FrameType | None) -> None:
        raise raised

    alarm(handler)
    assert caught(passes_on(work)) is raised


def fails() -> None:
    raise ValueError("mine")


def test_what_the_program_deals_with_already_is_not_raised_again(alarm: Callable[[Any], None]) -> None:
    alarm(by_function)
    try:
        interrupted()
    except Late:
        error = caught(passes_on(fails))
    assert type(error) is ValueError and type(error.__context__) is Late


@pytest.mark.parametrize("work", [interrupted, in_a_generator])
def test_what_is_from_outside_is_not_ignored(work: Callable[[], None], alarm: Callable[[Any], None]) -> None:
    alarm(by_function)
    with pytest.raises(Late), ignored(Exception):
        work()
    with ignored(ValueError):
        fails()


def test_what_runs_inside_a_program_ignores_only_its_own_errors() -> None:
    inside = [path for path in sources() if label(path).startswith(("msprobe/core/", "msprobe/adapters/"))]
    assert len(inside) > 200
    text = {label(path): path.read_text("utf-8") for path in inside}
    assert [name for name, code in text.items() if re.search(r"with .*\bsuppress\(", code)] == []
    # These answer no to any OSError; the methods of Path only to those of the system.
    assert [name for name, code in text.items() if re.search(r"os\.path\.(l?exists|is(file|dir|link))\(", code)] == []


def test_an_error_of_cleaning_up_is_ignored(alarm: Callable[[Any], None]) -> None:
    def clean_up() -> None:
        try:
            interrupted()
        except BaseException:
            with ignored(ValueError):
                fails()
            raise

    alarm(by_function)
    assert type(caught(clean_up)) is Late


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a package that sends a signal when the first of its two parts has been imported."""
    name = "cut_off"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import os, signal, time\nfrom .one import *\nos.kill(os.getpid(), signal.SIGUSR1)\ntime.sleep(0.1)\n"
        "import cut_off.two\n"
    )
    (folder / "one.py").write_text("number = 1\n")
    (folder / "two.py").write_text("import cut_off\nnumber = cut_off.one.number\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in (name, f"{name}.one", f"{name}.two"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return name


def test_an_import_that_is_interrupted_is_whole_the_next_time(package: str, alarm: Callable[[Any], None]) -> None:
    alarm(by_function)
    assert type(caught(lambda: import_whole(package))) is Late
    alarm(signal.SIG_IGN)
    assert import_whole(package).two.number == 1


def test_an_import_that_fails_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_whole("no_such_module")


def test_a_module_that_another_thread_imports_is_there_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "half_imported"
    (tmp_path / f"{name}.py").write_text("import threading\nbegun = threading.Event()\nthreading.go.wait()\nrest = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(threading, "go", go := threading.Event(), raising=False)
    assert imported_whole(name) is None
    assert not is_being_imported(name)
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    while not hasattr(sys.modules.get(name), "begun"):
        time.sleep(0.001)
    assert imported_whole(name) is None
    assert is_being_imported(name)
    go.set()
    thread.join()
    assert imported_whole(name).rest == 1
    assert not is_being_imported(name)
