"""Exceptions that come from outside of the code they appear in: the program wants them, whoever is at work just then.

A handler of a signal, a trace function and ``PyThreadState_SetAsyncExc`` raise between any two instructions, also while
the tool measures. Such an exception is not an error of the tool, whatever its class. Whoever catches more than it
expects calls ``let_through`` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

_NEVER_RAISE = ("RESUME", "NOP", "JUMP", "POP_JUMP", "POP_TOP", "LOAD_CONST", "STORE_FAST", "RETURN_VALUE", "YIELD")
_WITHOUT_REASON = (StopIteration, StopAsyncIteration, MemoryError)  # C code raises these without a message


def let_through(error: BaseException) -> None:
    """Raise ``error`` again if it belongs to the program (``is_from_outside``)."""
    if is_from_outside(error):
        raise error


def is_from_outside(error: BaseException) -> bool:
    """Return whether ``error`` was not caused by the code that it appears in.

    The interpreter calls handlers of signals and trace functions with the frame that they interrupt, which is what no
    ordinary call does. What another thread sends appears at an instruction that cannot fail, or at a call of C code,
    which would have said why.
    """
    if not isinstance(error, Exception):
        return True
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        if _interrupts(trace.tb_frame, interrupted):
            return True
    return _is_sent(error, trace)


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


def _is_sent(error: Exception, trace: TracebackType) -> bool:
    """Return whether no instruction of the innermost frame can have raised ``error``."""
    name = _instruction(trace.tb_frame.f_code, trace.tb_lasti)
    if name.startswith(_NEVER_RAISE):
        return True
    return name.startswith(("CALL", "PRECALL")) and not error.args and not isinstance(error, _WITHOUT_REASON)


def _instruction(code: CodeType, offset: int) -> str:
    """Return the name of the instruction at ``offset``; empty where there is none."""
    import dis

    return next((one.opname for one in dis.get_instructions(code) if one.offset == offset), "")
