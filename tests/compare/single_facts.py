"""Dumps, and single facts of them to change: what the matrix ``facts`` compares.

``make_dump`` makes a small dump of one kind. ``changed`` returns it with exactly one fact changed, drawn by a random
generator, and says which (``Fact``). What the change has to lead to, the oracle knows (``single_fact_oracle``). Nothing
here uses msprobe.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Node = Any
KINDS = ("statistics", "tensor", "md5", "xor")
STATISTICS = ("Max", "Min", "Mean", "Norm", "Projection")
FILES = "dump_tensor_data"


@dataclass
class Dump:
    """The documents of a dump: ``header`` and ``data`` of dump.json, and its tensor files by name."""

    kind: str
    header: dict[str, Any]
    data: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the dump into a new folder and return it."""
        folder.mkdir(parents=True)
        (folder / "dump.json").write_text(json.dumps({**self.header, "data": self.data}))
        (folder / "construct.json").write_text("{}")
        if self.files:
            (folder / FILES).mkdir()
        for name, content in self.files.items():
            (folder / FILES / name).write_bytes(content)
        return folder


@dataclass
class Fact:
    """One changed fact.

    Attributes:
        what: which fact, a name that the oracle knows.
        where: the path in the dump, for messages.
        before: the node or value as it was, and ``after`` as it is.
        slot: the section of the record that holds it.
    """

    what: str
    where: str
    before: Any = None
    after: Any = None
    slot: str = ""


class _Maker:
    """Makes the nodes of one dump; equal seeds make equal dumps."""

    def __init__(self, kind: str) -> None:
        self.kind, self.files = kind, dict[str, bytes]()
        self._values = np.random.default_rng(7)

    def tensor(self, name: str, shape: tuple[int, ...] = (3, 4), dtype: str = "float32", **more: Any) -> Node:
        """Return the node of a tensor of normal values around 1/2, and keep its file."""
        values = self._values.normal(0.5, 1.0, shape)
        array = values > 0 if dtype == "bool" else (values * 10 if dtype == "int64" else values).astype(dtype)
        node = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": list(shape)}
        if self.kind != "xor":
            node |= self._statistics(array)
        node["requires_grad"] = np.dtype(dtype).kind == "f"
        if self.kind in ("md5", "xor"):
            digest = f"{zlib.crc32(array.tobytes()):08x}"
            node["md5"] = f"0x{digest}{digest}" if self.kind == "xor" else digest
        if self.kind == "tensor":
            node["data_name"] = f"{name}.npy"
            stream = io.BytesIO()
            np.save(stream, array)
            self.files[f"{name}.npy"] = stream.getvalue()
        return node | more

    def _statistics(self, array: Any) -> dict[str, Any]:
        if not array.size:
            return dict.fromkeys(STATISTICS[:4])
        if array.dtype == bool:
            return {"Max": bool(array.any()), "Min": bool(array.all()), "Mean": None, "Norm": None}
        wide = array.astype(np.float64)
        kind = int if array.dtype.kind == "i" else float
        return {
            "Max": kind(array.max()),
            "Min": kind(array.min()),
            "Mean": float(wide.mean()),
            "Norm": float(np.linalg.norm(wide)),
            "Projection": float((wide.ravel() * np.cos(np.arange(array.size))).sum()),
        }


def make_dump(kind: str) -> Dump:
    """Return the dump of two modules, five functions and a backward pass."""
    make = _Maker(kind)
    tensor = make.tensor
    scale = {"type": "float", "value": 1.25}
    data: dict[str, Any] = {
        "Functional.embedding.0.forward": {
            "input_args": [tensor("ids", (4,), "int64"), tensor("table", (8, 4))],
            "input_kwargs": {"padding_idx": None, "sparse": {"type": "bool", "value": False}},
            "output": [tensor("embedded", (4, 4))],
        },
        "Module.encoder.fc.Linear.forward.0": {
            "input_args": [tensor("fc_in", (4, 4))],
            "input_kwargs": {},
            "parameters": {"weight": tensor("weight", (4, 4)), "bias": tensor("bias", (4,))},
            "output": [tensor("fc_out", (4, 4))],
            "training": True,
        },
        "Tensor.__mul__.0.forward": {
            "input_args": [tensor("product", (4, 4)), scale],
            "input_kwargs": {},
            "output": [tensor("scaled", (4, 4))],
        },
        "Torch.where.0.forward": {
            "input_args": [
                tensor("mask", (4, 4), "bool"),
                tensor("half", (4, 4), "float16"),
                {"type": "int", "value": 3},
            ],
            "input_kwargs": {"mode": {"type": "str", "value": "floor"}, "eps": {"type": "float", "value": 1e-5}},
            "output": [[tensor("chosen", (4, 4), "float16"), tensor("nothing", (0, 4))], None],
        },
        "Module.encoder.Encoder.forward.0": {
            "input_args": [tensor("model_in", (4, 4))],
            "input_kwargs": {"shape": {"type": "torch.Size", "value": [4, 4]}},
            "parameters": {},
            "output": [tensor("model_out", (4, 4))],
            "training": True,
        },
        "Torch.sum.0.forward": {
            "input_args": [tensor("summed", (4, 4), "float64")],
            "input_kwargs": {"dtype": {"type": "torch.dtype", "value": "torch.float64"}},
            "output": [tensor("total", (), "float64")],
        },
        "Module.encoder.fc.Linear.backward.0": {
            "input": [tensor("grad_out", (4, 4))],
            "output": [tensor("grad_in", (4, 4)), None],
        },
        "Module.encoder.fc.Linear.parameters_grad": {
            "weight": [tensor("weight_grad", (4, 4))],
            "bias": [tensor("bias_grad", (4,))],
        },
    }
    task = "tensor" if kind == "tensor" else "statistics"
    header = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    return Dump(kind, header, data, make.files)


@dataclass
class _Place:
    """A node, what holds it, and under which key."""

    path: str
    slot: str
    holder: Any
    key: Any

    @property
    def node(self) -> Any:
        return self.holder[self.key]


def _leaves(dump: Dump) -> Iterator[_Place]:
    for entry, body in dump.data.items():
        for section, node in body.items():
            if section != "training":
                slot = "parameters" if section == "parameters" else "value"
                yield from _below(f"{entry}.{section}", slot, body, section, node)


def _below(path: str, slot: str, holder: Any, key: Any, node: Any) -> Iterator[_Place]:
    if isinstance(node, list):
        for number, child in enumerate(node):
            yield from _below(f"{path}.{number}", slot, node, number, child)
    elif isinstance(node, dict) and "type" not in node:
        for name, child in node.items():
            yield from _below(f"{path}.{name}", slot, node, name, child)
    else:
        yield _Place(path, slot, holder, key)


Draw = random.Random
Change = Callable[[Dump, Draw], "Fact | None"]


def changed(dump: Dump, draw: Draw) -> tuple[Dump, Fact]:
    """Return a copy of a dump with one fact changed, and the fact."""
    while True:
        result = Dump(dump.kind, dict(dump.header), copy.deepcopy(dump.data), dict(dump.files))
        change = draw.choice(_FILE_CHANGES if dump.files and draw.random() < 0.4 else _CHANGES)
        fact = change(result, draw)
        if fact is not None:
            return result, fact


def _tensor_of(dump: Dump, draw: Draw) -> _Place:
    return draw.choice([one for one in _leaves(dump) if isinstance(one.node, dict) and "dtype" in one.node])


def _argument_of(dump: Dump, draw: Draw) -> _Place:
    return draw.choice([one for one in _leaves(dump) if isinstance(one.node, dict) and "value" in one.node])


def _statistic(dump: Dump, draw: Draw) -> Fact | None:
    """A statistic gets another value: far off, by a hair, NaN, infinite, a text, null, or no value."""
    place = _tensor_of(dump, draw)
    names = [name for name in (*STATISTICS, "md5") if name in place.node]
    if not names:
        return None
    name, before = draw.choice(names), copy.deepcopy(place.node)
    ways = ["null", "removed", "far", "hair", "nan", "infinite", "text"]
    way, old = draw.choice(ways), place.node[name]
    if name == "md5":
        way = draw.choice(["null", "removed", "digest"])
    scale = max(abs(float(place.node.get(one) or 0)) for one in ("Max", "Min", "Norm"))
    numbers: dict[str, Callable[[], Any]] = {
        "far": lambda: not old if isinstance(old, bool) else old + type(old)(max(0.5 * scale, 1)),
        "hair": lambda: math.nextafter(old, math.inf),
        "nan": lambda: float("nan"),
        "infinite": lambda: float("inf"),
        "text": lambda: "many",
        "digest": lambda: old[:-1] + ("0" if old[-1] != "0" else "1"),
        "null": lambda: None,
    }
    if (way == "hair" and (type(old) is not float or not old)) or (way in ("far", "null") and old is None):
        return None
    if way == "removed":
        del place.node[name]
    else:
        place.node[name] = numbers[way]()
    return Fact(f"statistic {way}", f"{place.path}.{name}", before, place.node, place.slot)


def _description(dump: Dump, draw: Draw) -> Fact | None:
    """Shape, dtype or a flag of a tensor."""
    place = _tensor_of(dump, draw)
    before, node = copy.deepcopy(place.node), place.node
    way = draw.choice(["shape", "axis", "dtype", "requires_grad", "no requires_grad", "unknown key"])
    if way == "shape":
        node["shape"] = [*node["shape"][:-1], node["shape"][-1] + 1] if node["shape"] else [2]
    elif way == "axis":
        node["shape"] = [*node["shape"], 1]
    elif way == "dtype":
        others = ["torch.float32", "torch.float16", "torch.int32", "torch.bool", "torch.bfloat16", "strange"]
        node["dtype"] = draw.choice([one for one in others if one != node["dtype"]])
    elif way == "requires_grad":
        node["requires_grad"] = not node["requires_grad"]
    elif way == "no requires_grad":
        del node["requires_grad"]
    else:
        node["colour"] = "green"
    return Fact(way, place.path, before, node, place.slot)


def _argument(dump: Dump, draw: Draw) -> Fact | None:
    """A scalar argument gets another value, by a hair or far off, another type, or loses a key."""
    place = _argument_of(dump, draw)
    before, node = copy.deepcopy(place.node), place.node
    value = node["value"]
    way = draw.choice(["value", "hair", "type", "no value", "null value"])
    if way == "hair" and type(value) is not float:
        return None
    if way == "value":
        others: dict[type, Callable[[], Any]] = {
            bool: lambda: not value,
            int: lambda: value + 1,
            float: lambda: value * 1.5,
            str: lambda: f"{value}!",
            list: lambda: [*value[:-1], value[-1] + 1],
        }
        node["value"] = others[type(value)]()
    elif way == "hair":
        node["value"] = value * (1 + 1e-9)
    elif way == "type":
        node["type"] = "strange"
    elif way == "no value":
        del node["value"]
    else:
        node["value"] = None
    return Fact(f"argument {way}", place.path, before, node, place.slot)


def _leaf(dump: Dump, draw: Draw) -> Fact | None:
    """A value becomes null, or is there no more, or once more, or under another name; a null becomes a tensor."""
    place = draw.choice(list(_leaves(dump)))
    node, before = place.node, copy.deepcopy(place.node)
    way = draw.choice(["null", "gone", "doubled", "renamed", "filled", "number"])
    if (node is None) != (way == "filled") and not (node is None and way in ("gone", "doubled", "renamed")):
        return None
    if way in ("null", "filled", "number"):
        fillers = {"null": None, "filled": {"type": "int", "value": 4}, "number": {"type": "int", "value": 4}}
        place.holder[place.key] = fillers[way]
        if place.node == before:
            return None
    elif isinstance(place.holder, list):
        if way == "renamed":
            return None
        place.holder.append(copy.deepcopy(node)) if way == "doubled" else place.holder.pop(place.key)
    else:
        if way != "doubled":
            del place.holder[place.key]
        if way != "gone":
            place.holder[f"{place.key}_too"] = node
    return Fact(f"leaf {way}", place.path, before, None, place.slot)


def _section(dump: Dump, draw: Draw) -> Fact | None:
    """A section of a record is removed, or the mode of a module changes."""
    entry = draw.choice(list(dump.data))
    section = draw.choice(list(dump.data[entry]))
    before = dump.data[entry][section]
    if section == "training":
        dump.data[entry][section] = not before
        return Fact("training", entry, before)
    if not before:
        return None
    del dump.data[entry][section]
    return Fact("section removed", f"{entry}.{section}", before)


def _entry(dump: Dump, draw: Draw) -> Fact | None:
    """An entry is removed, added, renamed, emptied, or stands elsewhere."""
    names = list(dump.data)
    name = draw.choice(names)
    way = draw.choice(["removed", "added", "renamed", "renumbered", "moved", "emptied", "null"])
    items = list(dump.data.items())
    at = names.index(name)
    if way == "removed":
        del items[at]
    elif way == "added":
        items.insert(at, ("Torch.surplus.0.forward", copy.deepcopy(dump.data[draw.choice(names[:3])])))
    elif way == "renamed":
        items[at] = (name.replace(".0", "_two.0", 1) if ".0" in name else f"Module.two.{name}", items[at][1])
    elif way == "renumbered":
        if ".0" not in name:
            return None
        items[at] = (name.replace(".0", ".1"), items[at][1])
    elif way == "moved":
        items.insert(draw.choice([one for one in range(len(items)) if one != at]), items.pop(at))
    else:
        items[at] = (name, {} if way == "emptied" else None)
    dump.data = dict(items)
    return Fact(f"entry {way}", name)


def _header(dump: Dump, draw: Draw) -> Fact | None:
    way = draw.choice(["task", "level", "framework", "dump_data_dir", "unknown field", "version", "no level"])
    values = {
        "task": ("task", "tensor" if dump.kind != "tensor" else "statistics"),
        "level": ("level", "L0"),
        "framework": ("framework", "mindspore"),
        "dump_data_dir": ("dump_data_dir", "/elsewhere"),
        "unknown field": ("colour", "green"),
        "version": ("version", "9"),
    }
    if way == "no level":
        del dump.header["level"]
    else:
        dump.header[values[way][0]] = values[way][1]
    return Fact(f"header {way}", "header")


def _file(dump: Dump, draw: Draw) -> Fact | None:
    """A tensor file is cut, empty, gone, or has one bit of its elements or its head flipped."""
    name = draw.choice(list(dump.files))
    before = dump.files[name]
    way = draw.choice(["cut", "empty", "gone", "bit", "bit", "bit", "head"])
    after = bytearray(before)
    head = before.index(b"\n") + 1
    if way == "cut":
        if len(before) == head:
            return None
        after = after[: draw.randrange(head, len(before))]
    elif way == "empty":
        after = bytearray()
    elif way in ("bit", "head"):
        begin, end = (head, len(before)) if way == "bit" else (0, head)
        if begin == end:
            return None
        after[draw.randrange(begin, end)] ^= 1 << draw.randrange(8)
    if way == "gone":
        del dump.files[name]
    else:
        dump.files[name] = bytes(after)
    return Fact(f"file {way}", name, before, bytes(after))


def _saved_otherwise(dump: Dump, draw: Draw) -> Fact | None:
    """A tensor file has another shape or dtype, or another value."""
    name = draw.choice(list(dump.files))
    before = dump.files[name]
    array = np.load(io.BytesIO(before))
    way = draw.choice(["shape", "dtype", "nan", "value"])
    if not array.size or (way == "nan" and array.dtype.kind != "f"):
        return None
    if way == "shape":
        array = np.resize(array, (*array.shape, 2))
    elif way == "dtype":
        array = array.astype("float64" if array.dtype != np.float64 else "float32")
    else:
        array = array.copy()
        at = draw.randrange(array.size)
        old = array.flat[at]
        array.flat[at] = float("nan") if way == "nan" else (not old if array.dtype == bool else old + 9)
    stream = io.BytesIO()
    np.save(stream, array)
    dump.files[name] = stream.getvalue()
    return Fact(f"file {way}", name, before, stream.getvalue())


def _file_name(dump: Dump, draw: Draw) -> Fact | None:
    """The record of a tensor names another file, or none."""
    place = _tensor_of(dump, draw)
    before = copy.deepcopy(place.node)
    way = draw.choice(["none", "null", "minus one", "unknown"])
    values = {"null": None, "minus one": "-1", "unknown": "nowhere.npy"}
    if way == "none":
        del place.node["data_name"]
    else:
        place.node["data_name"] = values[way]
    return Fact(f"file name {way}", place.path, before, place.node, place.slot)


_CHANGES: tuple[Change, ...] = (_statistic, _statistic, _description, _argument, _leaf, _section, _entry, _header)
_FILE_CHANGES: tuple[Change, ...] = (_file, _file, _saved_otherwise, _file_name)
