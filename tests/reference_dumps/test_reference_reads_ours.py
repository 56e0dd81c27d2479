"""The reference's own programs read our dumps as if the further keys were not there.

They run where the variable ``REFERENCE_PYTHON`` names a python that has the reference.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reference_dumps.test_reference_dumps import REFERENCE
from tests.visualize.test_further_keys_in_tensorboard import ENTRIES, HEADER, VALUES, dumps

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not REFERENCE, reason="REFERENCE_PYTHON names no python"),
]
__all__ = ["dumps"]
SHOWN = "Projection"
"""The one further key that graph_visualize of the reference shows, beside its own statistics."""


def without(node: Any, keys: set[str]) -> Any:
    if isinstance(node, dict):
        return {key: without(part, keys) for key, part in node.items() if key not in keys}
    return [without(part, keys) for part in node] if isinstance(node, list) else node


@pytest.fixture(scope="module")
def plain(dumps: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the same dumps without further keys."""
    root = tmp_path_factory.mktemp("plain")
    for name, folder in dumps.items():
        (root / name).mkdir(mode=0o700)
        for document in ("construct.json", "stack.json"):
            (root / name / document).write_text((folder / document).read_text())
        header = json.loads((folder / "dump.json").read_text())
        header = {key: value for key, value in header.items() if key not in HEADER}
        header["data"] = {
            name: without({key: part for key, part in entry.items() if key not in ENTRIES}, VALUES)
            for name, entry in header["data"].items()
        }
        (root / name / "dump.json").write_text(json.dumps(header))
    return {name: root / name for name in dumps}


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str, Path, Path], Path]:
    """Return the function that runs a command of the reference on two dumps and returns the file that it writes."""

    def run(command: str, target: Path, golden: Path) -> Path:
        output = tmp_path / f"{command}{len(list(tmp_path.iterdir()))}"
        program = "import sys; from msprobe.msprobe import main; sys.argv[0] = 'msprobe'; main()"
        words = [REFERENCE, "-c", program, command, "-tp", target, "-gp", golden, "-o", output]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (written,) = (path for path in output.iterdir() if path.suffix in {".csv", ".xlsx", ".db"})
        return written

    return run


def test_compare_writes_the_same_table(
    dumps: dict[str, Path],
    plain: dict[str, Path],
    made: Callable[[str, Path, Path], Path],
) -> None:
    tables = [
        made("compare", runs["target"] / "dump.json", runs["golden"] / "dump.json").read_text()
        for runs in (dumps, plain)
    ]
    assert tables[0] == tables[1]
    assert "Tensor.__mul__.0.forward.output.0" in tables[0]


def test_graph_visualize_draws_the_same_graph(
    dumps: dict[str, Path],
    plain: dict[str, Path],
    made: Callable[[str, Path, Path], Path],
) -> None:
    graphs = []
    for runs in (dumps, plain):
        with sqlite3.connect(made("graph_visualize", runs["target"], runs["golden"])) as database:
            graphs.append(database.execute("SELECT * FROM tb_nodes ORDER BY id").fetchall())
    assert len(graphs[0]) == len(graphs[1]) > 50
    for ours, theirs in zip(*graphs, strict=True):
        assert [shown(cell) for cell in ours] == [shown(cell) for cell in theirs]


def shown(cell: Any) -> Any:
    """Return a cell of the database; values of a node without the one key that is shown."""
    if isinstance(cell, str) and cell.startswith("{"):
        return without(json.loads(cell), {SHOWN})
    return cell
