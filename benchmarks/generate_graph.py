"""Synthetic graph databases in the published layout, as large as asked: a transformer of many layers, both runs.

Every node holds as much text as a real one of a statistics comparison: two inputs and an output with their differences.
One operation in the middle is wrong, and everything after it carries the difference on.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

APIS_PER_MODULE, MODULES_PER_LAYER = 4, 8
NODES_PER_LAYER = 1 + MODULES_PER_LAYER * (1 + APIS_PER_MODULE)
TABLES = """
CREATE TABLE tb_nodes (id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL,
    node_name TEXT NOT NULL, node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER,
    overflow_level TEXT, micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT,
    parallel_merge_info TEXT, matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT,
    data_source TEXT, dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER);
CREATE TABLE tb_config (id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER,
    overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL);
CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT);
CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);
"""
STACK = [f"File model.py, line {line}, in forward, \n x = self.layer(x)" for line in range(10, 100, 10)]
ROOT = "DefaultModel"


def tree(nodes: int) -> Iterator[tuple[str, str, list[str]]]:
    """(name, parent, names inside) of about ``nodes`` nodes, children first, the root last."""
    layers = max(1, nodes // NODES_PER_LAYER)
    call = 0
    for layer in range(layers):
        modules = [f"Module.layers.{layer}.part{part}.Linear.forward.0" for part in range(MODULES_PER_LAYER)]
        block = f"Module.layers.{layer}.Block.forward.0"
        for module in modules:
            apis = [f"Functional.linear.{call + number}.forward" for number in range(APIS_PER_MODULE)]
            call += APIS_PER_MODULE
            yield from ((api, module, []) for api in apis)
            yield module, block, apis
        yield block, ROOT, modules
    yield ROOT, "", [f"Module.layers.{layer}.Block.forward.0" for layer in range(layers)]


class Values:
    """The parameters of a node as text; ``wrong`` says from which node on the runs differ."""

    def __init__(self, wrong: int) -> None:
        self.wrong = wrong
        self.random = random.Random(0)

    def parameters(self, name: str, slots: tuple[str, ...], error: float | None) -> str:
        return json.dumps({f"{name}.{slot}": self._parameter(error) for slot in slots})

    def _parameter(self, error: float | None) -> dict[str, str]:
        draw = self.random.uniform
        values = {"type": "torch.Tensor", "dtype": "torch.bfloat16", "shape": "[4, 2048, 4096]"}
        values |= {key: repr(draw(-4, 4)) for key in ("Max", "Min", "Mean", "Norm")}
        values |= {"requires_grad": "True", "data_name": "-1"}
        if error is None:
            return values
        values |= {key: repr(draw(0, 1)) for key in ("Max diff", "Min diff", "Mean diff", "L2norm diff")}
        percent = f"{error * 100:.6f}%"
        values |= dict.fromkeys(("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"), percent)
        return values | {"Requires_grad Consistent": "True", "Result": "error" if error > 0.1 else "pass"}


def write_graph(path: Path, nodes: int) -> int:
    """Write a database with about ``nodes`` nodes on each side; returns how many rows there are."""
    shape = list(tree(nodes))
    parents = {name: parent for name, parent, _ in shape}
    values = Values(wrong=len(shape) // 2)

    def chain(name: str) -> list[str]:
        return [*chain(parents[name]), name] if parents[name] else [name]

    def rows(side: str) -> Iterator[tuple[object, ...]]:
        for order, (name, parent, inside) in enumerate(shape):
            error = None if side == "Bench" else 0.0 if order < values.wrong else values.random.uniform(0.001, 0.3)
            level = None if error is None else float(error > 0.1)
            inputs = values.parameters(name, ("input.0", "input.1"), error)
            outputs = values.parameters(name, ("output.0",), error)
            yield (
                f"{side}_0_0_{name}", f"{side}_0_0", order, name, "0" if inside or not parent else "1", parent,
                json.dumps(inside) if inside else "", level, None, 0, json.dumps(chain(name)), f"{side}_0_0_0", "",
                "{}", 0, inputs, outputs, side, None, 0, 0, 0,
            )  # fmt: skip

    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(TABLES)
        config = ("1", "compare", "summary", "{}", 1, 0, "{}", "[0]", "[0]")
        connection.execute(f"INSERT INTO tb_config VALUES ({','.join('?' * len(config))})", config)
        for side in ("NPU", "Bench"):
            connection.execute("INSERT INTO tb_stack VALUES (?, ?)", (f"{side}_0_0_0", json.dumps(STACK)))
            connection.executemany(f"INSERT INTO tb_nodes VALUES ({','.join('?' * 22)})", rows(side))
    return 2 * len(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="the .vis.db to write")
    parser.add_argument("--nodes", type=int, default=50_000, help="nodes on each side")
    options = parser.parse_args()
    rows = write_graph(options.path, options.nodes)
    print(f"{options.path}: {rows} rows, {options.path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
