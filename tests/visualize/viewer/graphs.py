"""Graph databases for the viewer, with or without our extra tables: made by the builder from small dumps, and filled by
hand in the published layout.

By hand is what no run here gives: verdicts of all kinds at once with chosen errors, another writer, hostile names.
``test_built.py`` views what the builder made of real runs.
"""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.visualize.database.schema import INDEXES, TABLES
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, module, tensor, write

_PUBLISHED_ONLY = "DROP TABLE tb_msprobe_nodes; DROP TABLE tb_msprobe_values; DROP TABLE tb_msprobe_meta"
_LEVELS = {"pass": 0, "same": 0, "warning": 0.5, "error": 1}
STACK = [
    "File /env/site-packages/torch/nn/modules/linear.py, line 134, in forward, \n return F.linear(x)",
    "File model.py, line 20, in forward, \n h = self.up(x)",
]


@dataclass
class Node:
    """One call on one side; ``partner`` is the name on the other side, None for none, and "" means the same name."""

    name: str
    parent: str = "DefaultModel"
    verdict: str = "pass"
    error: float | None = 0.0
    partner: str | None = ""
    reason: str | None = None
    overflow: str | None = None
    norm: float = 1.0
    dtype: str = "torch.float32"
    links: dict[str, Any] = field(default_factory=dict)
    inside: list[Node] = field(default_factory=list)

    def with_inside(self, *nodes: Node) -> Node:
        """The same node with others below it."""
        for node in nodes:
            node.parent = self.name
        self.inside = list(nodes)
        return self


@dataclass
class Graph:
    """What one database holds; ``sides`` maps (step, rank, side) to the nodes below the root, in order."""

    sides: dict[tuple[int, int, str], list[Node]]
    meta: dict[str, Any] = field(default_factory=dict)
    overflow: bool = False

    def write(self, path: Path, ours: bool = True) -> Path:
        """Write the database; ``ours`` says whether our extra tables are in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(TABLES + INDEXES)
            if not ours:
                connection.executescript(_PUBLISHED_ONLY)
            steps, ranks = (sorted({place[axis] for place in self.sides}) for axis in (0, 1))
            kind = "compare" if any(side == "Bench" for *_, side in self.sides) else "build"
            config = ("1", kind, "summary", None, 1, int(self.overflow), "null", json.dumps(ranks), json.dumps(steps))
            connection.execute("INSERT INTO tb_config VALUES (?,?,?,?,?,?,?,?,?)", config)
            for place, nodes in self.sides.items():
                _Writer(connection, *place, ours).side(nodes)
            if ours:
                values = ((key, json.dumps(value)) for key, value in {"format": 1, **self.meta}.items())
                connection.executemany("INSERT INTO tb_msprobe_meta VALUES (?,?)", values)
        return path


@dataclass
class _Writer:
    connection: sqlite3.Connection
    step: int
    rank: int
    source: str
    ours: bool
    count: int = 0

    @property
    def place(self) -> str:
        return f"{self.source}_{self.step}_{self.rank}"

    def side(self, nodes: list[Node]) -> None:
        self.connection.execute("INSERT INTO tb_stack VALUES (?, ?)", (f"{self.place}_0", json.dumps(STACK)))
        root = Node("DefaultModel", "", "no_data", None)
        root.inside = nodes
        self._node(root, [])

    def _node(self, node: Node, above: list[str]) -> None:
        partner = node.name if node.partner == "" else node.partner
        chain = [*above, partner] if partner else []
        for below in node.inside:
            self._node(below, [*above, node.name])
        compared = self.source == "NPU" and partner is not None
        level = _LEVELS.get(node.verdict) if compared else None
        names = json.dumps([below.name for below in node.inside]) if node.inside else ""
        kind = "0" if node.name.startswith(("Module", "Default")) else "1"
        bare = node.name == "DefaultModel"
        self.connection.execute(
            f"INSERT INTO tb_nodes VALUES ({','.join('?' * 22)})",
            (
                f"{self.place}_{node.name}", self.place, self.count, node.name, kind, node.parent, names, level,
                node.overflow, 0, json.dumps(chain), f"{self.place}_0", "",
                json.dumps(node.links), 0,
                "{}" if bare else self._data(node, "input", 1.0),
                "{}" if bare else self._data(node, "output", node.norm),
                self.source, None, self.step, self.rank, 0,
            ),
        )  # fmt: skip
        if self.ours:
            row = (f"{self.place}_{node.name}", node.verdict, "", "{}", node.error, self.count, node.reason)
            self.connection.execute("INSERT INTO tb_msprobe_nodes VALUES (?,?,?,?,?,?,?)", row)
        self.count += 1

    def _data(self, node: Node, kind: str, norm: float) -> str:
        values = {"type": "torch.Tensor", "dtype": node.dtype, "shape": "[4, 8]", "Max": "1.9310508966445923"}
        values |= {"Min": "-2.0", "Mean": "0.0625", "Norm": repr(norm)}
        if self.source == "NPU" and node.partner is not None:
            values |= {"NormRelativeErr": f"{abs(norm - 1) * 100}%", "Result": node.verdict, "Err_message": "[]"}
        return json.dumps({f"{node.name}.{kind}.0": values})


def diverging(hostile: str = "") -> Graph:
    """Two blocks on two ranks. Rank 1 goes wrong in a projection of block 0; the MLP of block 1 has two names."""

    def run(wrong: bool, mlp: str) -> list[Node]:
        down = Node("Module.layers.0.fc.down.Linear.forward.0").with_inside(Node("Functional.linear.1.forward"))
        act = Node(f"Functional.gelu.0.forward{hostile}", dtype="torch.bfloat16")
        head = Node("Module.head.Linear.forward.0")
        if wrong:
            down.verdict, down.error, down.norm, down.reason = "error", 812.5, 1.5, "output.0: norm 1.5 against 1"
            down.inside[0].verdict, down.inside[0].error, down.inside[0].norm = "error", 900.0, 1.5
            head.verdict, head.error, head.norm = "warning", 3.0, 1.01
        first = Node("Module.layers.0.Block.forward.0").with_inside(
            Node("Module.layers.0.fc.up.Linear.forward.0").with_inside(Node("Functional.linear.0.forward")), act, down
        )
        missing = {"verdict": "unmatched", "partner": None, "error": None}
        second = Node("Module.layers.1.Block.forward.0").with_inside(
            Node("Module.layers.1.norm.LayerNorm.forward.0"),
            Node(f"Module.layers.1.{mlp}.MLP.forward.0", **missing).with_inside(
                Node(f"Module.layers.1.{mlp}.up.Linear.forward.0", **missing)
            ),
        )
        return [first, second, head]

    sides: dict[tuple[int, int, str], list[Node]] = {}
    for rank in (0, 1):
        sides[0, rank, "NPU"] = run(rank == 1, "fc")
        sides[0, rank, "Bench"] = run(False, "mlp")
    first = {
        "step": 0, "rank": 1, "node": "Functional.linear.1.forward", "golden_node": "Functional.linear.1.forward",
        "slot": "output.0", "reason": "norm 1.5 against 1", "stack": STACK,
        "script": "msprobe op_generate bad/step0/rank1 --api Functional.linear.1",
    }  # fmt: skip
    return Graph(sides, {"target": "bad", "golden": "good", "policy": "default", "first_divergence": [first]})


def overflowing(path: Path, ours: bool = True) -> Path:
    """One run with an inf that appears in a softmax."""
    finite, endless = tensor(), tensor(Max=math.inf)
    data = {
        "Module.a.Linear.forward.0": module([endless], [finite]),
        "Functional.softmax.0.forward": call([finite], [endless]),
        "Module.b.Linear.forward.0": module([finite], [finite]),
    }
    return built(path, data, ours=ours, overflow=True)


def built(
    path: Path, target: dict[str, Any], golden: dict[str, Any] | None = None, *, ours: bool = True, **request: Any
) -> Path:
    """The database that the builder makes of one dump or two; ``request`` are further fields of ``Request``."""
    folder = path.parent / f"{path.name}.dumps"
    dumps = {
        side: write(folder / side, data) for side, data in {"target": target, "golden": golden or {}}.items() if data
    }
    made = visualize(Request(output=folder / "out", **dumps, **request))
    made.rename(path)
    if not ours:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(_PUBLISHED_ONLY)
    return path
