"""Inputs of all commands, and ways to damage them: bytes, values of documents, cells of databases.

``Inputs`` writes one valid example of everything that a command reads. A *damage* changes one file of a copy.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.store.journal import VERSION, JournalWriter
from msprobe.core.store.layout import JOURNAL
from tests.compare.dumps import call, gradient, module, number, tensor, write
from tests.visualize.viewer.graphs import diverging

LINEAR = "Module.fc.Linear.forward.0"
DATA: dict[str, Any] = {
    "Functional.linear.0.forward": call([tensor(), tensor()], [tensor(0.5)], bias=None),
    LINEAR: module([tensor()], [tensor(0.5)], weight=tensor(), bias=tensor(shape=(8,))),
    "Functional.relu.0.forward": call([tensor(0.5), number(3)], [tensor(0.4), None], inplace=number(False)),
    "Distributed.all_reduce.0.forward": call([tensor()], [tensor()], group={"type": "torch.ProcessGroup"}),
    "Functional.relu.0.backward": gradient([tensor()], [tensor(), None]),
    "Module.fc.Linear.backward.0": gradient([tensor()], [tensor()]),
    "Module.fc.Linear.parameters_grad.0": {"weight": [tensor()], "bias": [tensor(shape=(8,))]},
}
CONSTRUCT = {"Functional.linear.0.forward": LINEAR, LINEAR: None, "Module.fc.Linear.backward.0": None}
STACK = {name: ["File a.py, line 1, in f, \n x"] for name in DATA}
ODD: list[Any] = [
    None, True, -1, 0, 0.5, 1e308, float("nan"), float("-inf"), 10**30, -(10**400), 2**63, "", "x", "=1+1", "a/b\x00",
    "../../outside/mine", "NaN", "\ud800", "%s{0}", "é" * 300, [], {}, [[]], {"": {}}, [None] * 50,
    {"type": "torch.Tensor"},
    {"type": "torch.Tensor", "dtype": 5, "shape": "x"}, {"type": "slice", "value": [0, 1, None]}, [["a"], ["b"]],
]  # fmt: skip
SQL_ODD: list[Any] = [None, -1, 2**63 - 1, 9e999, 0.5, "", "-1", "[", "[[1]]", '{"a": 1}', "x" * 5000, b"\x00\xff", "0"]
LINES = [
    "",
    "a",
    "!!python/object/apply:os.system ['touch outside/executed']",
    "- a: b",
    "x: &a [*a]",
    "\t",
    "{",
    "[1, 2",
]


class Executed:
    """What a hostile pickle holds: reading it as code makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.path}'",)


class Inputs:
    """A folder with one valid example of everything, and a file outside of what commands may write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        (root / "outside").mkdir(parents=True)
        (root / "outside" / "mine").write_text("mine")
        self.folder = root / "in"
        for side in ("bad", "good"):
            write(self.folder / side / "step0" / "rank0", DATA, CONSTRUCT, STACK)
        self._journal(self.folder / "died" / "step0" / "rank0")
        self._tensors(self.folder / "tensors" / "step0" / "rank0")
        diverging().write(self.folder / "graph.vis.db")
        self._documents()
        np.savez(self.folder / "a.npz", x=np.ones(3))

    def _journal(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        journal = JournalWriter()
        journal.open(folder / JOURNAL)
        journal.add({"v": VERSION, "task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None})
        journal.add({"k": 0, "f": ["File a.py, line 1, in f, \n x"]})
        for name, body in DATA.items():
            journal.add({"e": name, "d": body, "s": 0, "p": None})
        journal.flush()
        journal.close()

    def _tensors(self, folder: Path) -> None:
        names = {"Functional.relu.0.forward.input.0.npy": (4, 8), "Functional.relu.0.forward.output.0.npy": (4, 8)}
        data = {
            "Functional.relu.0.forward": call(
                [tensor(0.5, data_name="Functional.relu.0.forward.input.0.npy")],
                [tensor(0.4, data_name="Functional.relu.0.forward.output.0.npy")],
            )
        }
        write(folder, data, task="tensor")
        (folder / "dump_tensor_data").mkdir()
        for name, shape in names.items():
            np.save(folder / "dump_tensor_data" / name, np.ones(shape, np.float32))

    def _documents(self) -> None:
        texts = {
            "config.json": json.dumps({
                "task": "statistics",
                "dump_path": "d",
                "level": "L1",
                "step": [0, 1],
                "rank": [],
            }),
            "mapping.yaml": "Functional.relu.0.forward: Functional.relu.0.forward\n",
            "names.json": '{"fc": "layer"}',
            "merge.yaml": "api:\n- Functional.relu.0.forward.input.0\ncompare_index:\n- Max diff\n",
            "accepted.yaml": "- finding: value\n  place: Functional.*\n  reason: known\n  step: 0-2\n",
            "result.json": json.dumps({"first_divergence": {"kind": "value", "target": "a", "slot": None}}),
            "noise.json": json.dumps({"version": 2, "mode": "statistics", "runs": 2, "spreads": []}),
        }
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        for side, scale in (("first", 1.0), ("second", 1.5)):
            header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
            content = len(header).to_bytes(8, "little") + header + np.full(2, scale, np.float32).tobytes()
            (self.folder / f"{side}.safetensors").write_bytes(content)
            with zipfile.ZipFile(self.folder / f"{side}.pt", "w") as archive:
                archive.writestr("archive/data.pkl", pickle.dumps({"w": scale}))
                archive.writestr("archive/version", "3\n")
        for rank in range(2):
            titles = "NPU Name,Bench Name,Max diff,Min diff,Mean diff,L2norm diff,NPU max,Bench max\n"
            row = "Functional.relu.0.forward.input.0,Functional.relu.0.forward.input.0,0,0,0,0,1,1\n"
            path = self.folder / "tables" / f"compare_result_rank{rank}_20260101000000.csv"
            path.parent.mkdir(exist_ok=True)
            path.write_text(titles + row)

    def files(self) -> list[Path]:
        """Return the files that a damage may change, in a fixed order."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


def damage(path: Path, seed: int) -> None:
    """Change a file: its bytes, a value of its document, or a cell of its database."""
    rng = random.Random(seed)
    ways: list[Callable[[Path, random.Random], None]] = [_bytes, _bytes]
    if path.suffix == ".json":
        ways += [_value, _value, _value, _deep]
    if path.suffix == ".db":
        ways += [_cell] * 4
    if path.suffix in (".yaml", ".csv"):
        ways += [_line, _line]
    if path.suffix in (".pt", ".npy"):
        ways += [_pickle]
    if path.name == JOURNAL:
        ways += [_journal_line, _journal_line]
    rng.choice(ways)(path, rng)


def _bytes(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, max(len(content) - 1, 0))
        way = rng.randint(0, 4)
        if way == 0:
            content = content[:at]
        elif way == 1:
            content[at:at] = rng.randbytes(rng.randint(1, 20))
        elif way == 2 and content:
            content[at] = rng.randint(0, 255)
        elif way == 3:
            content[at:at] = content[at : at + rng.randint(1, 200)]
        else:
            del content[at : at + rng.randint(1, 50)]
    path.write_bytes(content)


def _value(path: Path, rng: random.Random) -> None:
    document = json.loads(path.read_bytes())
    for _ in range(rng.randint(1, 2)):
        spots = list(_spots(document))
        if spots:
            holder, key = rng.choice(spots)
            holder[key] = copy.deepcopy(rng.choice(ODD))
    path.write_bytes(json.dumps(document).encode("utf-8", "replace"))


def _spots(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(value, (dict, list)):
            yield from _spots(value)


def _deep(path: Path, rng: random.Random) -> None:
    size = rng.choice([100, 400, 5000, 200_000])
    document = json.loads(path.read_bytes())
    spots = list(_spots(document))
    if spots:
        holder, key = rng.choice(spots)
        holder[key] = "DEEP"
    opening, closing_ = rng.choice([("[", "]"), ('{"a":', "}")])
    inner = "1" if opening != "[" else ""
    path.write_text(json.dumps(document).replace('"DEEP"', opening * size + inner + closing_ * size))


def _cell(path: Path, rng: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection, connection, contextlib.suppress(sqlite3.Error):
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = rng.choice(tables)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, key = rng.choice(columns), columns[0]
        way = rng.randint(0, 9)
        if way == 0:
            connection.execute(f"DROP TABLE {table}")
        elif way == 1:
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
        elif way == 2:
            connection.execute(f"DELETE FROM {table}")
        else:
            one = f" WHERE {key} = (SELECT min({key}) FROM {table})"
            connection.execute(f"UPDATE {table} SET {column} = ?{rng.choice(['', one])}", (rng.choice(SQL_ODD),))


def _line(path: Path, rng: random.Random) -> None:
    lines = path.read_text().splitlines()
    at = rng.randint(0, len(lines))
    lines[at : at + rng.randint(0, 1)] = [rng.choice(LINES)]
    path.write_text("\n".join(lines))


def _pickle(path: Path, rng: random.Random) -> None:
    hostile = pickle.dumps(Executed(path.parents[1] / "outside" / "executed"))
    if path.suffix == ".npy" and rng.randint(0, 1):
        path.write_bytes(hostile)
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", hostile)


def _journal_line(path: Path, rng: random.Random) -> None:
    lines = path.read_bytes().split(b"\n")
    at = rng.randint(0, len(lines) - 1)
    odd = rng.choice(ODD)
    key = rng.choice(["v", "k", "f", "q", "n", "s", "p", "e"])
    line = {"q": 21, "n": 5, "k": 1, "f": ["x"], key: odd}
    kept = rng.sample(sorted(line), rng.randint(1, len(line)))
    lines[at : at + rng.randint(0, 1)] = [json.dumps({name: line[name] for name in kept}).encode()]
    path.write_bytes(b"\n".join(lines))
