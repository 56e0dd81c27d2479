"""The values of a node as JSON text: one object per value, every field a string, in the words that viewers know.

Texts are put together by hand: a large graph has hundreds of thousands of them.
"""

from __future__ import annotations

import json.encoder
from collections.abc import Iterable
from typing import Any

from msprobe.compare.items import OUTPUT, RANK_KEYS, Leaf, describe, is_tensor, row_name
from msprobe.numerics.metrics.checksum import text_checksum

quoted = json.encoder.encode_basestring
NOTHING = "{}", "{}"
NULL = '{"value":"null"}'
Made = tuple[Leaf, str | None, str]
"""A value, its opened object, and the fields to add."""
_TENSOR = ("type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad")
_PROCESS_GROUP = ("type", "group_ranks", "group_id")
_P2P = "torch.distributed.P2POp"
_ADDED = ("Max", "Min", "Mean", "Norm")
_REPEATED = (int, float, bool, str)
_INTERNAL = frozenset({"state", "full_op_name", "p2p", "shards"})


class ValueTexts:
    """Makes the objects of one dump. ``checksums`` adds the checksum of arguments that are no tensors."""

    def __init__(self, *, checksums: bool = False) -> None:
        self._checksums = checksums
        self._heads: dict[tuple[object, ...], str] = {}
        self._arguments: dict[tuple[object, ...], str] = {}

    def opened(self, leaf: Leaf, numbers: str | None = None) -> str | None:
        """The object of a value without its closing brace, so that fields can follow; None for null. ``numbers`` are
        the four statistics where their text is known."""
        raw = leaf[2]
        if type(raw) is dict and tuple(raw)[:8] == _TENSOR:
            return self._tensor(raw, numbers)
        if raw is None:
            return None
        if type(raw) is dict and len(raw) == 2 and type(raw.get("value")) in _REPEATED:
            return self._argument(leaf, raw)
        return self._other(leaf, raw)

    def _argument(self, leaf: Leaf, raw: dict[str, Any]) -> str:
        """Plain arguments repeat over and over: each is put into words once."""
        value = raw["value"]
        key = raw.get("type"), type(value), str(value), leaf[0].endswith(RANK_KEYS)
        text = self._arguments.get(key)
        if text is None:
            text = self._arguments[key] = self._other(leaf, raw)
        return text

    def _tensor(self, raw: dict[str, Any], numbers: str | None) -> str:
        kind, dtype, shape, largest, smallest, mean, norm, grad = tuple(raw.values())[:8]
        head = self._head(kind, dtype, shape)
        if numbers is None and not float is type(largest) is type(smallest) is type(mean) is type(norm):
            fields = zip(_ADDED, (largest, smallest, mean, norm), strict=True)
            numbers = ",".join(_field(name, value) for name, value in fields)
        if numbers is None:
            text = f'{head}"Max":"{largest}","Min":"{smallest}","Mean":"{mean}","Norm":"{norm}"'
        else:
            text = head + numbers
        text = f'{text},"requires_grad":"{grad}"' if type(grad) is bool else f"{text},{_field(_TENSOR[7], grad)}"
        if len(raw) == 8:
            return text + ',"data_name":"-1"'
        rest = [(name, value) for name, value in list(raw.items())[8:] if name not in _INTERNAL]
        text += "".join(f",{_field(name, value)}" for name, value in rest)
        if "data_name" not in raw:
            text += ',"data_name":"-1"'
        return f'{text},"class_type":"{_P2P}"' if "p2p" in raw else text

    def _head(self, kind: Any, dtype: Any, shape: Any) -> str:
        """What stands before the numbers: few kinds of tensors serve many values."""
        key = kind, dtype, tuple(shape) if type(shape) is list else shape
        try:
            head = self._heads.get(key)
        except TypeError:  # a damaged dump may hold anything
            return _opening(kind, dtype, shape)
        if head is None:
            head = self._heads[key] = _opening(kind, dtype, shape)
        return head

    def _other(self, leaf: Leaf, raw: Any) -> str:
        if type(raw) is not dict:
            raw = {"type": type(raw).__name__, "value": raw}
        if raw.get("type") == "torch.ProcessGroup":
            fields = {name: raw.get(name) for name in _PROCESS_GROUP} | {"data_name": raw.get("data_name", "-1")}
        else:
            fields = {name: value for name, value in raw.items() if name not in _INTERNAL}
            fields.setdefault("data_name", "-1")
            if not is_tensor(raw):
                self._describe(leaf, raw, fields)
            if "p2p" in raw:
                fields["class_type"] = _P2P
        return "{" + ",".join(_field(name, value) for name, value in fields.items())

    def _describe(self, leaf: Leaf, raw: dict[str, Any], fields: dict[str, Any]) -> None:
        """What a table shows of an argument: its value in place of statistics, a type, a shape."""
        told = describe(leaf._replace(raw=raw))
        fields.setdefault("requires_grad", None)
        for name, cell in zip(_ADDED, told.statistics, strict=True):
            fields.setdefault(name, cell)
        fields.setdefault("dtype", told.dtype)
        fields.setdefault("shape", told.shape)
        if self._checksums and "md5" not in fields:
            fields["md5"] = text_checksum(str(raw.get("value")))


def _opening(kind: Any, dtype: Any, shape: Any) -> str:
    return f"{{{_field('type', kind)},{_field('dtype', dtype)},{_field('shape', shape)},"


def _field(name: str, value: Any) -> str:
    return f"{quoted(str(name))}:{quoted(_plain(value))}"


def _plain(value: Any) -> str:
    """The text of a field: without single quotes, ``null`` for what is missing or blank."""
    text = value if type(value) is str else str(value)
    text = text.replace("'", "")
    return "null" if text in ("None", " ") else text


def side_texts(name: str, made: Iterable[Made]) -> tuple[str, str]:
    """Texts of the inputs and the outputs of an entry, from its values: each opened object and the fields to add.

    A value goes by its tensor file without extension, else by its place in the entry.
    """
    inputs: list[str] = []
    outputs: list[str] = []
    for leaf, opened, more in made:
        raw = leaf[2]
        key = row_name(name, leaf) if type(raw) is dict and "data_name" in raw else name + leaf[0]
        side = outputs if leaf[1] == OUTPUT else inputs
        side.append(f"{quoted(key)}:{NULL if opened is None else opened + more + '}'}")
    return "{" + ",".join(inputs) + "}", "{" + ",".join(outputs) + "}"


def fill_values(name: str, found: Iterable[Leaf], texts: ValueTexts) -> tuple[str, str]:
    """Inputs and outputs of an entry that is not compared."""
    opened = texts.opened
    return side_texts(name, [(leaf, opened(leaf), "") for leaf in found])
