"""Ways to change one file so that a reader of its kind may stumble: texts, values, cells, members, nodes, links."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import json
import os
import random
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import onnx
import yaml

from tests.cli import hostile
from tests.swollen_zips import add_swollen

Damage = Callable[[Path, random.Random], None]
NUMBERS = ["9" * 5000, "-1", "1e999", "0x1f", ".inf", "1_0", "1:60:60", "99999999999999999999", "2001-99-99", "0.1.2"]
YAML_TEXTS = [
    "a: &a [*a]",
    "\n".join([f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" if n else "k0: &k0 [1]" for n in range(9)]),
    "? [a, b]\n: c",
    "? {a: b}\n: c",
    "<<: [{a: 1}, 3]",
    "x: !!python/object/apply:os.system ['touch outside/executed']",
    "x: !!binary '***'",
    "x: !!timestamp 'no'",
    "x: !!int 'z'",
    "x: 2001-99-99",
    "1: 2\n1.5: 3\nnull: 4\n2001-01-01: 5",
    "---\na: 1\n---\nb: 2",
    "%YAML 9.9\n---\na: 1",
    "x: " + "[" * 3000,
    "- " * 3000,
    "key: |\n" + "x" * 100_000,
]
JSON_TEXTS = [
    '{"a": 1, "a": 2}', "NaN", "[" * 100_000, '{"a":' * 100_000, "1" * 5000, '"\\ud800"', "[1e999]", "{}", "[]",
]  # fmt: skip
TEXTS = ["", "\x00" * 100, "\ufeff{}", "\ufeff", "x" * 100_000, "\r\n\r\r", "null", "\u2028", "é"]
CELLS = [
    "", "=1+1", "=HYPERLINK(\"x\")", "@x", "-1", "nan", "inf", "1e999", "9" * 5000, "x" * 200_000,
    "a\x00b", '"', "\n", ",", "N/A", "True", "[1, 2", "(2, 3)", "\ud7ff", "0", "1" * 30, "é" * 300, "\ufeff",
]  # fmt: skip
SQL_NAMES = ['x"; DROP TABLE a; --', "'", '"', "[x]", "", "a b", "select", "é", "%s", "x" * 2000]
PLACES = ["XFD1048576", "A1048576", "ZZZZ99", "A0", "", "1"]
NAMES = ["", "\x00", "../../outside/mine", "é", "x" * 5000, "/../x"]
SIZES = [-1, 0, 3, 2**31, 2**62]
TYPES = [0, 2, 8, 10, 16, 99]
LOCATIONS = ["../outside/mine", "/etc/passwd", "", ".", "weights.bin", "a\x00", "model.onnx"]
DEVICES = ["/dev/zero", "/dev/null", "/proc/self/mem"]
BESIDE = [
    "dump.json", "stack.json", "dump.journal", "step0", "step7", "rank0", "rank3", "bench", "inputs", "debug.json",
    "a.csv", "a.npy", "dump_tensor_data", "Functional.relu.0.forward.py", "Functional.relu.0.forward.npz",
]  # fmt: skip
_SHEET = "xl/worksheets/sheet1.xml"
BOMB = 3 << 30
"""Bytes that a bomb unpacks to."""
ROWS = b'<row r="1"><c r="A1"><v>1</v></c></row>' * 20_000
"""What a bomb repeats."""


def damage(path: Path, rng: random.Random) -> None:
    """Change one file in one of the ways that its suffix allows."""
    ways: list[Damage] = [_known, *_OF_SUFFIX.get(path.suffix, [])]
    rng.choice(ways)(path, rng)


def _known(path: Path, rng: random.Random) -> None:
    hostile.damage(path, rng.randint(0, 2**32 - 1))


# ---------------------------------------------------------------- texts


def _text(path: Path, rng: random.Random) -> None:
    """Another text as a whole, before, or after the one that is there."""
    other = rng.choice(rng.choice([TEXTS, JSON_TEXTS if path.suffix == ".json" else YAML_TEXTS]))
    own = path.read_text("utf-8", "replace")
    text = rng.choice([other, f"{own}\n{other}", f"{other}\n{own}", own.replace("\n", f"\n{other}\n", 1)])
    path.write_bytes(text.encode(rng.choice(["utf-8", "utf-8", "utf-16", "utf-8-sig"])))


def _number(path: Path, rng: random.Random) -> None:
    text = path.read_text("utf-8", "replace")
    places = list(re.finditer(r"\d+(\.\d+)?", text))
    if places:
        place = rng.choice(places)
        text = text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]
        path.write_text(text, "utf-8")


def _value(path: Path, rng: random.Random) -> None:
    """Another value at one to three places of a document, in the place of a value or of a key."""
    with contextlib.suppress(ValueError, yaml.YAMLError):
        text = path.read_text("utf-8")
        document = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
        for _ in range(rng.randint(1, 3)):
            spots = list(hostile._spots(document)) if isinstance(document, (dict, list)) else []
            if not spots:
                return
            holder, key = rng.choice(spots)
            if isinstance(holder, dict) and rng.randint(0, 2) == 0:
                holder[str(rng.choice(hostile.ODD))] = holder.pop(key)
            else:
                holder[key] = copy.deepcopy(rng.choice(hostile.ODD))
        path.write_bytes(json.dumps(document).encode("utf-8", "replace"))


def _twice(path: Path, rng: random.Random) -> None:
    """A key that stands twice: in JSON with another value, in YAML as a line that is there already."""
    text = path.read_text("utf-8", "replace")
    if path.suffix == ".json":
        places = list(re.finditer(r'("[^"]*"): ', text))
        if places:
            place = rng.choice(places)
            odd = json.dumps(rng.choice(hostile.ODD))
            text = f"{text[: place.start()]}{place[1]}: {odd}, {text[place.start() :]}"
    else:
        lines = text.splitlines()
        lines.insert(rng.randint(0, len(lines)), rng.choice(lines or [""]))
        text = "\n".join(lines)
    path.write_bytes(text.encode("utf-8", "replace"))


# ---------------------------------------------------------------- tables


def _cells(path: Path, rng: random.Random) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8-sig", "replace"))))
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows or [[""]])
        at = rng.randrange(len(row) or 1)
        way = rng.randint(0, 9)
        if way == 0:
            row.insert(at, rng.choice(CELLS))
        elif way == 1:
            del row[at:]
        elif way == 2:
            rows.insert(rng.randint(0, len(rows)), list(row))
        elif way == 3:
            rows[:] = [[*other[:at], *other[at + 1 :]] for other in rows]
        elif rows and at < len(row):
            row[at] = rng.choice(CELLS)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_bytes(text.getvalue().encode(rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]), "replace"))


def _members(path: Path, rng: random.Random) -> None:
    """Another content of one member of a zip file, or none; a bomb where there is luck."""
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    name = rng.choice([*members, *[_SHEET] * 5]) if path.suffix == ".xlsx" else rng.choice(list(members))
    bomb = rng.randint(0, 19) == 0
    if rng.randint(0, 9) == 0:
        del members[name]
    elif not bomb:
        members[name] = _changed(members[name], rng, path.with_name(f"member{Path(name).suffix}"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, content in members.items():
            if not (bomb and other == name):
                archive.writestr(other, content)
        if bomb:
            add_swollen(archive, name, ROWS, BOMB // len(ROWS), told=rng.choice([None, members.get(name)]))


def _changed(content: bytes, rng: random.Random, scratch: Path) -> bytes:
    """Return other bytes of a member: as of a document, or with other places, types and values of cells."""
    if scratch.suffix == ".json":
        scratch.write_bytes(content)
        rng.choice([_value, _text, _number])(scratch, rng)
        content = scratch.read_bytes()
        scratch.unlink()
        return content
    text = content.decode("utf-8", "replace")
    place, kind, number = rng.choice(PLACES), rng.choice(["e", "b", "d", "str", "inlineStr", "zz"]), rng.choice(NUMBERS)
    times = rng.randint(1, 5)
    changed = [
        re.sub(r'r="[A-Z]+\d+"', f'r="{place}"', text, count=times),
        re.sub(r"<v>\d+</v>", f"<v>{number}</v>", text, count=times),
        re.sub(r' t="s"', f' t="{kind}"', text, count=times),
        text.replace("<v>", "<f>1+1</f><v>", times),
        text[: rng.randint(0, len(text))],
        rng.choice(CELLS) + text,
    ]
    return rng.choice(changed).encode("utf-8", "replace")


# ---------------------------------------------------------------- databases


def _schema(path: Path, rng: random.Random) -> None:
    """Other tables: of another program, with other names, views in their place, triggers, other types of columns."""
    odd = '"{}"'.format(rng.choice(SQL_NAMES).replace('"', '""'))
    with closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.Error):
        table = rng.choice([
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ])
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, numbers = rng.choice(columns), ", ".join(f"x AS {one}" for one in columns)
        endless = f"WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {numbers} FROM r"
        texts = ", ".join(rng.choice(["'x'", "''", "'1'", "x'00'"]) for _ in columns)
        statements = [
            f"ALTER TABLE {table} RENAME TO {odd}",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO {odd}",
            f"ALTER TABLE {table} ADD COLUMN {odd} TEXT DEFAULT 'x'",
            f"CREATE TABLE {odd} (a, b)",
            f"DROP TABLE {table}; CREATE TABLE {table} ({', '.join(columns)}); INSERT INTO {table} VALUES ({texts})",
            f"DROP TABLE {table}; CREATE VIEW {table} AS {endless}",
            f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
            f"UPDATE {table} SET {column} = {column} || 'x'",
            f"INSERT INTO {table} SELECT * FROM {table}",
        ]
        connection.executescript(rng.choice(statements))


# ---------------------------------------------------------------- models


def _proto(path: Path, rng: random.Random) -> None:
    """Change a node, the weights, the input or the versions of a model."""
    model = onnx.load(path, load_external_data=False)
    rng.choice([_node, _node, _weights, _input, _large_constant])(model, rng)
    path.write_bytes(model.SerializeToString())


def _node(model: Any, rng: random.Random) -> None:
    """Other names, also of values that are made later or by the node itself; another order; a node twice."""
    node = rng.choice(list(model.graph.node))
    names = [*node.input, *node.output, *NAMES]
    way = rng.randint(0, 5)
    if way == 0:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif way == 1:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)
    elif way == 2:
        node.op_type = rng.choice(["", "Abs", "Loop", "Scan", "Reshape", "Expand", "Nothing", "ConstantOfShape"])
    elif way == 3:
        node.name = rng.choice(names)
    elif way == 4:
        model.graph.node.reverse()
    else:
        model.graph.node.append(node)


def _weights(model: Any, rng: random.Random) -> None:
    way = rng.randint(0, 2)
    for tensor in model.graph.initializer:
        if way == 0:
            tensor.dims[0] = rng.choice(SIZES)
        elif way == 1:
            tensor.data_type = rng.choice(TYPES)
        else:
            del tensor.external_data[:]
            tensor.data_location = 1
            tensor.external_data.add(key="location", value=rng.choice(LOCATIONS))
            tensor.external_data.add(key=rng.choice(["offset", "length"]), value=rng.choice(NUMBERS))


def _input(model: Any, rng: random.Random) -> None:
    kind = model.graph.input[0].type.tensor_type
    way = rng.randint(0, 2)
    if way == 0:
        kind.shape.dim[0].dim_value = rng.choice(SIZES)
        kind.shape.dim.add().dim_value = rng.choice(SIZES)
    elif way == 1:
        kind.elem_type = rng.choice(TYPES)
    else:
        model.opset_import[0].version, model.ir_version = rng.choice([0, -1, 1, 999]), rng.choice([0, 3, 9, 999])


def _large_constant(model: Any, rng: random.Random) -> None:
    size = rng.choice([-1, 0, 2**62])
    model.graph.initializer.append(onnx.helper.make_tensor("shape", 7, [2], [size, abs(size)]))
    model.graph.node.append(onnx.helper.make_node("ConstantOfShape", ["shape"], ["big"]))
    model.graph.output.append(onnx.ValueInfoProto(name="big"))


_DOCUMENT: list[Damage] = [_text, _number, _value, _value, _twice]
_OF_SUFFIX: dict[str, list[Damage]] = {
    ".json": _DOCUMENT,
    ".yaml": _DOCUMENT,
    ".jsonl": [_text, _number],
    ".log": [_text, _number],
    ".sh": [_text, _number, _twice],
    ".csv": [_cells] * 3,
    ".xlsx": [_members] * 5,
    ".zip": [_members] * 2,
    ".db": [_schema] * 2,
    ".onnx": [_proto] * 3,
}


# ---------------------------------------------------------------- links


def plant(place: Path, rng: random.Random, outside: Path) -> None:
    """Put a link, a pipe or a folder beside a file or folder below ``place``, or in its place."""
    if not place.exists():
        place.mkdir(parents=True)
    spot = rng.choice([place, *sorted(place.rglob("*"))])
    if spot == place or rng.randint(0, 2) == 0:
        folder = spot if spot.is_dir() and not spot.is_symlink() else spot.parent
        spot = folder / rng.choice(BESIDE)
    moved = outside.parent / "moved" / str(rng.random())
    for folder in (moved.parent, spot.parent):
        folder.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(spot):
        spot.rename(moved)
    targets = ["nowhere", spot.name, ".", "..", outside / "mine", outside, moved, place, *DEVICES]
    way = rng.randint(0, len(targets) + 2)
    if way < len(targets):
        spot.symlink_to(targets[way])
    elif way == len(targets):
        spot.mkdir()
    else:
        os.mkfifo(spot)
