"""Exceptions that come from outside of the code they appear in: the program wants them, whoever is at work just then.

A handler of a signal, a trace function and ``PyThreadState_SetAsyncExc`` raise between any two instructions, also while
the tool measures. Such an exception is not an error of the tool, whatever its class. Whoever catches more than it
expects calls ``let_through`` first. What became of one on its way counts as the exception itself: a generator makes a
RuntimeError of each StopIteration, and a reader names the file of an OSError in an error of its own.

What the tool imports only when it is needed, it imports by ``import_whole``: a package whose import was cut off has its
finished parts in ``sys.modules``, and importing it again does not make it whole. What the program may import is looked
up by ``imported_whole``: another thread may be at it, and half of its names are there.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_NEVER_RAISE = ("RESUME", "NOP", "JUMP", "POP_JUMP", "POP_TOP", "LOAD_CONST", "STORE_FAST", "RETURN_VALUE", "YIELD")
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
_WITHOUT_REASON = (StopIteration, StopAsyncIteration, MemoryError)  # C code raises these without a message


def let_through(error: BaseException) -> None:
    """Raise the exception that belongs to the program if ``error`` is one, or comes of one (``from_outside``)."""
    outside = from_outside(error)
    if outside is not None:
        raise outside


class ignored(contextlib.suppress):
    """Suppress errors of these classes inside the context, but not what belongs to the program."""

    def __enter__(self) -> None:
        handled = sys.exc_info()[1]
        self._passed_on = None if handled is None else from_outside(handled)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is None or not super().__exit__(kind, error, trace):
            return False
        return from_outside(error) in (None, self._passed_on)


def passes_on(function: F) -> F:
    """Decorate a function that the program calls: what comes from outside leaves it as what it was raised as."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            let_through(error)
            raise

    return call  # type: ignore[return-value]


def from_outside(error: BaseException) -> BaseException | None:
    """Return the exception that was not caused by the code it appears in: ``error``, or what it comes of; else None.

    The interpreter calls handlers of signals and trace functions with the frame that they interrupt, which is what no
    ordinary call does. What another thread sends appears at an instruction that cannot fail, or at a call of C code,
    which would have said why.
    """
    if not isinstance(error, Exception) or _is_by_handler(error) or _is_sent(error):
        return error
    seen = {id(error)}
    origin = _origin(error)
    while origin is not None and id(origin) not in seen:
        if isinstance(origin, KeyboardInterrupt) or _is_by_handler(origin):
            return origin
        seen.add(id(origin))
        origin = _origin(origin)
    return None


def import_whole(name: str) -> Any:
    """Return the module ``name``, which is imported to its end whatever interrupts this call.

    Another thread imports it, as handlers of signals run in the main thread alone. Inside an import of the program,
    whose locks another thread would wait for, and in other threads it is an ordinary import.
    """
    if name in sys.modules or threading.current_thread() is not threading.main_thread() or _is_importing():
        return importlib.import_module(name)
    ends: SimpleQueue[BaseException | None] = SimpleQueue()
    try:
        start_thread("msprobe-import", lambda: ends.put(_import(name)))
    except RuntimeError as error:  # the process ends, or may have no more threads
        let_through(error)
        return importlib.import_module(name)
    problem = ends.get()
    if problem is not None:
        raise problem
    return importlib.import_module(name)


def imported_whole(name: str) -> Any:
    """Return the module ``name`` that the program has imported; None before its import has come to its end."""
    module = sys.modules.get(name)
    return None if _is_incomplete(module) else module


def is_being_imported(name: str) -> bool:
    """Return whether some thread imports the module ``name`` at this moment."""
    return _is_incomplete(sys.modules.get(name))


def _is_incomplete(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _ThreadFacts(threading.local):
    is_own = False


_thread_facts = _ThreadFacts()


def start_thread(name: str, function: Callable[[], object]) -> None:
    """Run ``function`` in a daemon thread of this name, which starts in one call of C.

    ``threading.Thread.start`` waits for the thread by locks; an exception of a handler leaves one of them held, and the
    thread that was started waits for it for ever.
    """

    def run() -> None:
        threading.current_thread().name = name
        _thread_facts.is_own = True
        function()

    _thread.start_new_thread(run, ())


def is_own_thread() -> bool:
    """Return whether ``start_thread`` has started this thread: nothing that runs in it is called by the program."""
    return _thread_facts.is_own


def _import(name: str) -> BaseException | None:
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001  (raised in the thread that waits)
        return error
    return None


def _is_importing() -> bool:
    """Return whether this thread is inside an import."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != _IMPORT_SYSTEM:
        frame = frame.f_back
    return frame is not None


def _origin(error: BaseException) -> BaseException | None:
    """Return the exception that ``error`` was raised instead of, but none that the program is already dealing with.

    That one was caught in a frame which ``error`` has not passed.
    """
    earlier = error.__cause__ or error.__context__
    if error.__cause__ is not None or earlier is None or earlier.__traceback__ is None:
        return earlier
    trace, caught = error.__traceback__, earlier.__traceback__.tb_frame
    while trace is not None and trace.tb_frame is not caught:
        trace = trace.tb_next
    return None if trace is None else earlier


def _is_by_handler(error: BaseException) -> bool:
    """Return whether a handler of a signal or a trace function has raised ``error``."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        if _interrupts(trace.tb_frame, interrupted):
            return True
    return False


def _interrupts(frame: FrameType, caller: FrameType) -> bool:
    """Return whether ``frame`` is of a function called as ``(signal, caller)`` or ``(caller, event, argument)``."""
    given = list(_arguments(frame))
    for position, value in enumerate(given):
        if value is caller:
            before, after = given[:position][-1:], given[position + 1 :][:1]
            return any(isinstance(number, int) for number in before) or any(isinstance(event, str) for event in after)
    return False


def _arguments(frame: FrameType) -> Iterator[Any]:
    """Yield the positional arguments that a function was called with, as far as it still has them."""
    code, local = frame.f_code, frame.f_locals
    for name in code.co_varnames[: code.co_argcount]:
        yield local.get(name)
    if code.co_flags & 0x04:  # *args
        rest = local.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        yield from rest if isinstance(rest, tuple) else ()


def _is_sent(error: BaseException) -> bool:
    """Return whether no instruction of the innermost frame can have raised ``error``."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = _instruction(trace.tb_frame.f_code, trace.tb_lasti)
    if name.startswith(_NEVER_RAISE):
        return True
    return name.startswith(("CALL", "PRECALL")) and not error.args and not isinstance(error, _WITHOUT_REASON)


def _instruction(code: CodeType, offset: int) -> str:
    """Return the name of the instruction at ``offset``; empty where there is none."""
    import dis

    written = code.co_code
    return dis.opname[written[offset]] if 0 <= offset < len(written) else ""
