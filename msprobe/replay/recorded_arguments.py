"""The arguments of a recorded call, read from the nodes of a dump.

``parse_argument`` turns a node into plain data: a ``RecordedTensor``, a ``Constant``, a list or a dict. What a node
does not say exactly (a text that was cut, an object of a class) cannot be given to a call; ``CannotReplayError`` says
why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.backend.replaying import CannotReplayError, Constant
from msprobe.core.tensors.dtypes import find_dtype

_TENSORS = ("torch.Tensor", "mindspore.Tensor")
_NUMBERS = ("int", "float", "bool")
_NAMED = {
    "torch.dtype": "dtype",
    "mindspore.dtype": "dtype",
    "torch.device": "device",
    "torch.layout": "layout",
    "torch.memory_format": "memory_format",
}
_CUT = "..."


@dataclass(frozen=True, slots=True)
class RecordedTensor:
    """What a dump says of a tensor.

    Attributes:
        dtype: the neutral name of its dtype.
        shape: its shape.
        largest, smallest, mean, norm: its statistics; None where the dump has none.
        requires_grad: whether it asked for a gradient.
        file: the file with its values; None where the dump has no such file.
    """

    dtype: str
    shape: tuple[int, ...]
    largest: float | None = None
    smallest: float | None = None
    mean: float | None = None
    norm: float | None = None
    requires_grad: bool = False
    file: Path | None = None


RecordedArgument = RecordedTensor | Constant | list["RecordedArgument"] | dict[str, "RecordedArgument"]


def parse_argument(node: Any, folder: Path) -> RecordedArgument:
    """Return the argument that a node stands for.

    Args:
        node: a part of a record.
        folder: the folder of tensor files.

    Raises:
        CannotReplayError: the node does not hold the whole argument.
    """
    if node is None:
        return Constant("plain")
    if isinstance(node, list):
        return [parse_argument(each, folder) for each in node]
    if not isinstance(node, Mapping):
        raise CannotReplayError(f"an argument is recorded as {type(node).__name__}, not as a value with its type")
    kind = node.get("type")
    if kind is None:
        return {str(name): parse_argument(each, folder) for name, each in node.items()}
    if kind in _TENSORS:
        return _tensor(node, folder)
    return _constant(str(kind), node)


def _tensor(node: Mapping[str, Any], folder: Path) -> RecordedTensor:
    dtype = find_dtype(str(node.get("dtype")))
    shape = node.get("shape")
    if dtype is None or not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise CannotReplayError(f"a tensor of dtype {node.get('dtype')} and shape {shape} is unknown")
    name = node.get("data_name")
    file = folder / name if isinstance(name, str) and Path(name).name == name else None
    largest, smallest, mean, norm = (_number(node.get(key)) for key in ("Max", "Min", "Mean", "Norm"))
    asks = node.get("requires_grad") is True
    return RecordedTensor(dtype.name, tuple(shape), largest, smallest, mean, norm, asks, file)


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value if isinstance(value, (int, float)) else str(value))
    except ValueError:
        return None
    except OverflowError:  # an integer beyond float64
        return math.inf if value > 0 else -math.inf


def _constant(kind: str, node: Mapping[str, Any]) -> Constant:
    value = node.get("value")
    if kind in _NUMBERS:
        number = _number(value)
        if number is None:
            raise CannotReplayError(f"a number is recorded as {value!r}")
        return Constant("plain", bool(value) if kind == "bool" else _exact(value, number) if kind == "int" else number)
    if kind == "NoneType":
        return Constant("plain")
    if kind == "str":
        if not isinstance(value, str) or value.endswith(_CUT):
            raise CannotReplayError("a text is recorded in part only")
        return Constant("plain", value)
    if kind == "slice" and isinstance(value, list) and len(value) == 3 and _are(value, (int, type(None))):
        return Constant("slice", tuple(value))
    if kind == "ellipsis":
        return Constant("ellipsis")
    if kind == "torch.Size" and isinstance(value, list) and _are(value, (int,)):
        return Constant("size", tuple(value))
    if kind in _NAMED:
        text = str(value if value is not None else node.get("format"))
        return Constant(_NAMED[kind], _dtype_name(text) if _NAMED[kind] == "dtype" else text)
    raise CannotReplayError(f"an argument of type {kind} is recorded without its value")


def _are(values: list[Any], types: tuple[type, ...]) -> bool:
    return all(isinstance(each, types) for each in values)


def _exact(value: Any, number: float) -> int:
    if isinstance(value, int):
        return value
    if not math.isfinite(number):
        raise CannotReplayError(f"a whole number is recorded as {value}")
    return int(number)


def _dtype_name(text: str) -> str:
    known = find_dtype(text)
    if known is None:
        raise CannotReplayError(f"{text} is no dtype that msprobe knows")
    return known.name
