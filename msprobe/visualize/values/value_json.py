"""The values of a node as JSON: one object per value, every field a string, with the field names that viewers expect.

The JSON is put together by hand, because a large graph has hundreds of thousands of values.
"""

from __future__ import annotations

import json.encoder
from collections.abc import Iterable
from typing import Any

from msprobe.core.store.record_walk import MEMORY, OUTPUT, PART, Leaf, is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.metrics.statistics import text_checksum
from msprobe.trace.leaves import RANK_KEYS, describe, row_name

quoted = json.encoder.encode_basestring
EMPTY_SIDES = "{}", "{}"
NULL = '{"value":"null"}'
STATISTIC_FIELDS = ",".join(f'"{name}":"%s"' for name in STATISTIC_NAMES)
OpenedValue = tuple[Leaf, str | None, str]
"""A value, its object without the closing brace (None for null), and the fields to add."""

_TENSOR_KEYS = ("type", "dtype", "shape", *STATISTIC_NAMES, "requires_grad")
_TENSOR_SIZE = len(_TENSOR_KEYS)
_FLAG_INDEX = _TENSOR_SIZE - 1
_PROCESS_GROUP_KEYS = ("type", "group_ranks", "group_id")
_P2P_CLASS = "torch.distributed.P2POp"
_FLOATS_ONLY = {float}
_PLAIN_TYPES = (int, float, bool, str)
_INTERNAL_KEYS = frozenset({"state", "full_op_name", "p2p", "shards", MEMORY, PART})


class ValueTexts:
    """Makes the objects of one dump. ``checksums`` adds the checksum of arguments that are no tensors."""

    def __init__(self, *, checksums: bool = False) -> None:
        self._checksums = checksums
        self._frames: dict[tuple[object, ...], tuple[str, str]] = {}  # few kinds of tensors serve many values
        self._arguments: dict[tuple[object, ...], str] = {}

    def open_object(self, leaf: Leaf, numbers: str | None = None) -> str | None:
        """Return the object of a value without its closing brace, so that fields can follow; None for null.

        ``numbers`` are the fields of its statistics where they are at hand.
        """
        raw = leaf[2]
        if type(raw) is dict and tuple(raw)[:_TENSOR_SIZE] == _TENSOR_KEYS:
            return self._tensor(raw, numbers)
        if raw is None:
            return None
        if type(raw) is dict and len(raw) == 2 and type(raw.get("value")) in _PLAIN_TYPES:
            return self._argument(leaf, raw)
        return self._other(leaf, raw)

    def _argument(self, leaf: Leaf, raw: dict[str, Any]) -> str:
        """Return the object of a plain argument, from the cache where it was made before: they repeat often."""
        value = raw["value"]
        key = raw.get("type"), type(value), str(value), leaf[0].endswith(RANK_KEYS)
        text = self._arguments.get(key)
        if text is None:
            text = self._arguments[key] = self._other(leaf, raw)
        return text

    def _tensor(self, raw: dict[str, Any], numbers: str | None) -> str:
        values = tuple(raw.values())
        grad = values[_FLAG_INDEX]
        if numbers is None:
            statistics = values[3:_FLAG_INDEX]
            if {*map(type, statistics)} == _FLOATS_ONLY:
                numbers = STATISTIC_FIELDS % statistics
            else:
                numbers = ",".join(map(_field, STATISTIC_NAMES, statistics))
        shape = values[2]
        key = values[0], values[1], tuple(shape) if type(shape) is list else shape, grad, type(grad)
        try:
            frame = self._frames.get(key)
        except TypeError:  # a damaged dump may hold anything
            frame = _tensor_frame(values)
        if frame is None:
            frame = self._frames[key] = _tensor_frame(values)
        if len(raw) == _TENSOR_SIZE:
            return f'{frame[0]}{numbers}{frame[1]},"data_name":"-1"'
        text = frame[0] + numbers + frame[1]
        rest = [(name, value) for name, value in list(raw.items())[_TENSOR_SIZE:] if name not in _INTERNAL_KEYS]
        text += "".join(f",{_field(name, value)}" for name, value in rest)
        if "data_name" not in raw:
            text += ',"data_name":"-1"'
        return f'{text},"class_type":"{_P2P_CLASS}"' if "p2p" in raw else text

    def _other(self, leaf: Leaf, raw: Any) -> str:
        if type(raw) is not dict:
            raw = {"type": type(raw).__name__, "value": raw}
        if raw.get("type") == "torch.ProcessGroup":
            fields = {name: raw.get(name) for name in _PROCESS_GROUP_KEYS} | {"data_name": raw.get("data_name", "-1")}
        else:
            fields = {name: value for name, value in raw.items() if name not in _INTERNAL_KEYS}
            fields.setdefault("data_name", "-1")
            if not is_tensor(raw):
                self._describe(leaf, raw, fields)
            if "p2p" in raw:
                fields["class_type"] = _P2P_CLASS
        return "{" + ",".join(_field(name, value) for name, value in fields.items())

    def _describe(self, leaf: Leaf, raw: dict[str, Any], fields: dict[str, Any]) -> None:
        """Add what a table shows of an argument: its value in place of statistics, a type, a shape."""
        description = describe(leaf._replace(raw=raw))
        fields.setdefault("requires_grad", None)
        for name, cell in zip(STATISTIC_NAMES, description.statistics, strict=True):
            fields.setdefault(name, cell)
        fields.setdefault("dtype", description.dtype)
        fields.setdefault("shape", description.shape)
        if self._checksums and "md5" not in fields:
            fields["md5"] = text_checksum(str(raw.get("value")))


def _tensor_frame(values: tuple[Any, ...]) -> tuple[str, str]:
    """Return the fields before and after the statistics of a tensor."""
    kind, dtype, shape = values[:3]
    head = f"{{{_field('type', kind)},{_field('dtype', dtype)},{_field('shape', shape)},"
    return head, f",{_field('requires_grad', values[_FLAG_INDEX])}"


def _field(name: str, value: Any) -> str:
    return f"{quoted(str(name))}:{quoted(_field_text(value))}"


def _field_text(value: Any) -> str:
    """Return the text of a field: without single quotes, ``null`` for what is missing or blank."""
    text = value if type(value) is str else str(value)
    text = text.replace("'", "")
    return "null" if text in ("None", " ") else text


def sides_json(name: str, values: Iterable[OpenedValue]) -> tuple[str, str]:
    """Return the JSON of the inputs and of the outputs of an entry.

    The key of a value is its tensor file without extension, else the name of the entry and its place in it.
    """
    inputs: list[str] = []
    outputs: list[str] = []
    for leaf, opened, more in values:
        raw = leaf[2]
        key = row_name(name, leaf) if type(raw) is dict and "data_name" in raw else name + leaf[0]
        side = outputs if leaf[1] == OUTPUT else inputs
        side.append(f"{quoted(key)}:{NULL if opened is None else opened + more + '}'}")
    return "{" + ",".join(inputs) + "}", "{" + ",".join(outputs) + "}"


def entry_json(name: str, values: Iterable[Leaf], texts: ValueTexts) -> tuple[str, str]:
    """Return the JSON of the inputs and of the outputs of an entry that is not compared."""
    open_object = texts.open_object
    return sides_json(name, [(leaf, open_object(leaf), "") for leaf in values])
