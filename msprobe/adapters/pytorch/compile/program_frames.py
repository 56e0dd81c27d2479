"""Lines of the program in the call stack of what runs a graph node by node.

A node is called through functions that carry file, line and name of the frames that the compiler has seen
(``node.stack_trace``): so the call stack of a record is that of the program.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msprobe.core.capture.call_stack import OWN

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)')
Frame = tuple[str, int, str]
"""File, line and function."""
Caller = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def frames_of(text: str | None) -> tuple[Frame, ...]:
    """Return the frames of a stack as Dynamo writes it, outermost first, without those of the tool."""
    found = (match for match in _FRAME.finditer(text or "") if not match["file"].startswith(OWN))
    return tuple((match["file"], int(match["line"]), match["name"]) for match in found)


@lru_cache(maxsize=10_000)
def caller_of(frames: tuple[Frame, ...]) -> Caller:
    """Return a function that calls another one from inside of these frames."""
    caller: Any = _call
    for number, frame in enumerate(reversed(frames)):
        caller = _as_frame(_call, frame) if number == 0 else _around(caller, frame)
    return caller


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _around(inner: Any, frame: Frame) -> Any:
    def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inner(function, args, kwargs)

    return _as_frame(call, frame)


def _as_frame(function: Any, frame: Frame) -> types.FunctionType:
    """Return a function of two lines, the second of which is the line of a frame."""
    file, line, name = frame
    code = function.__code__.replace(co_filename=file, co_firstlineno=line - 1, co_name=name)
    return types.FunctionType(code, function.__globals__, name, None, function.__closure__)
