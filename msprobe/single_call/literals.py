"""Arguments as source code. What a dump says reaches a script as literals and known names only.

A text becomes its ``repr``, a number a number, a dtype the name that msprobe knows of it. Nothing is copied as it is:
a dump of somebody else cannot put code into a script.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from msprobe.core.backend.replaying import Argument, CannotReplayError, Constant, HeldTensor, is_index
from msprobe.core.tensors.dtypes import find_dtype

Name = Callable[[HeldTensor], str]


def literal(argument: Argument, tensor: Name, framework: str) -> str:
    """Return an argument as source code.

    Args:
        argument: a tensor, a constant, or a container of them.
        tensor: returns the expression for a tensor.
        framework: the module that has the dtypes, ``torch``.

    Raises:
        CannotReplayError: no literal says it.
    """
    if isinstance(argument, HeldTensor):
        return tensor(argument)
    if isinstance(argument, (list, tuple)):
        parts = [literal(each, tensor, framework) for each in argument]
        is_tuple = isinstance(argument, tuple) or is_index(argument)
        return f"({''.join(f'{part}, ' for part in parts)})" if is_tuple else f"[{', '.join(parts)}]"
    if isinstance(argument, dict):
        items = (f"{name!r}: {literal(each, tensor, framework)}" for name, each in argument.items())
        return f"{{{', '.join(items)}}}"
    return _constant(argument, framework)


def dtype_literal(name: str, framework: str) -> str:
    """Return the expression for a dtype, ``torch.bfloat16``.

    Raises:
        CannotReplayError: it is no dtype that msprobe knows.
    """
    known = find_dtype(name)
    if known is None:
        raise CannotReplayError(f"{name!r:.60} is no dtype that msprobe knows")
    return f"{framework}.{'bool_' if known.name == 'bool' and framework == 'mindspore' else known.name}"


def _constant(constant: Constant, framework: str) -> str:
    kind, value = constant.kind, constant.value
    if kind == "dtype":
        return f"dtype({dtype_literal(str(value), framework)})"
    if kind == "device":
        return "device"
    if kind == "size":
        return f"({''.join(f'{int(each)}, ' for each in value)})"
    if kind == "slice":
        return f"slice({', '.join(_plain(each) for each in value)})"
    if kind == "ellipsis":
        return "..."
    if kind == "plain":
        return _plain(value)
    if kind in ("layout", "memory_format"):
        return _named(str(value), framework)
    raise CannotReplayError(f"an argument of the kind {kind} cannot stand in a script")


def _plain(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, (float, complex)):
        finite = math.isfinite(value) if isinstance(value, float) else math.isfinite(abs(value))
        return repr(value) if finite else f"{type(value).__name__}({str(value)!r})"
    raise CannotReplayError(f"a value of type {type(value).__name__} cannot stand in a script")


def _named(value: str, framework: str) -> str:
    module, _, name = value.rpartition(".")
    if module != framework or not name.isidentifier():
        raise CannotReplayError(f"{value!r:.60} is no name of {framework}")
    return f"{framework}.{name}"
