"""Texts that a copy of the process makes are those that one process makes; when it is lost, nobody misses them."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.jobs.test_share_rows import Program

ROOT = Path(__file__).parents[3]
TABLES = ("tb_nodes", "tb_stack", "tb_msprobe_nodes", "tb_config")


def draw(folder: Path, output: Path, cores: int, *lose: str) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    sides = [str(folder / "t"), str(folder / "g")]
    done = forked.run(["-m", "tests.visualize.run_with_json_worker", *sides, output, cores, *lose], cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    (path,) = output.iterdir()
    connection = sqlite3.connect(path)
    rows = {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES}
    connection.close()
    return json.loads(done.stdout), rows


@pytest.fixture(scope="module", params=["statistics", "md5"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp(request.param)
    for step in range(2):
        for side, shake in (("t", 1e-3), ("g", 0.0)):
            program = Program(step, shake, md5=request.param == "md5", modules=True)
            if side == "g":  # another order of the same values, and a call that the target lacks
                name, body = next(item for item in program.data.items() if "input_kwargs" in item[1])
                program.data[name] = {**body, "input_kwargs": dict(reversed(body["input_kwargs"].items()))}
                program.data["Tensor.exp.0.forward"] = body
            program.write(made / side / f"step{step}" / "rank0")
    return made


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, list[Any]]:
    told, rows = draw(folder, folder / "alone", 1)
    assert told["made"] == 0
    return rows


def test_the_same_database(folder: Path, alone: dict[str, list[Any]], tmp_path: Path) -> None:
    told, rows = draw(folder, tmp_path / "out", 2)
    assert (told["made"], told["left"]) == (1, 0)
    assert not any("gone" in line for line in told["warnings"])
    assert rows == alone and len(rows["tb_nodes"]) > 1000


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("lose", ["_make_golden", "_make_golden:1", "_make_pairs", "load_dump:1"])
def test_a_lost_copy_is_told_and_replaced(lose: str, folder: Path, alone: dict[str, list[Any]], tmp_path: Path) -> None:
    told, rows = draw(folder, tmp_path / "out", 2, lose)
    assert rows == alone and told["left"] == 0
    if lose != "_make_pairs" or folder.name.startswith("statistics"):
        assert sum("is gone; they are made here" in line for line in told["warnings"]) == 1
