"""Two real processes under ``msrun``: gradients before and after they are added up, and what is communicated."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.ranks import run_mindspore_ranks

PROGRAM = Path(__file__).parents[1] / "programs" / "watched_collectives.py"


def rows(folder: Path, rank: int, name: str) -> list[dict[str, str]]:
    (file,) = folder.glob(f"*-rank{rank}-*/{name}")
    return list(csv.DictReader(file.read_text().splitlines()))


@pytest.mark.matrix("wide")
@pytest.mark.slow
def test_two_ranks_that_add_up_their_gradients(tmp_path: Path) -> None:
    run_mindspore_ranks(PROGRAM, 2, tmp_path / "out")
    norms = {}
    for rank in (0, 1):
        for name in ("grad_unreduced", "grad_reduced"):
            found = rows(tmp_path / "out", rank, f"{name}_1-1.csv")
            norms[name, rank] = {row["name"]: row["norm"] for row in found}
    assert norms["grad_unreduced", 0] != norms["grad_unreduced", 1]
    assert norms["grad_reduced", 0] == norms["grad_reduced", 1]
    calls = rows(tmp_path / "out", 1, "comm_0-0.csv")
    names = [row["name"].partition("@")[0] + "." + row["name"].rpartition(".")[2] for row in calls]
    assert names == [f"{name}.{when}" for name in ("all_reduce", "all_reduce", "AllReduce") for when in ("pre", "post")]
    assert {row["name"].split("@")[1].split("[")[0] for row in calls} == {"watched_collectives.py"}
    assert (calls[4]["max"], calls[5]["max"]) == ("2.0", "3.0")
    unreduced = {row["name"]: row["norm"] for row in rows(tmp_path / "out", 1, "grad_unreduced_0-0.csv")}
    assert unreduced["0.bias"] == calls[2]["norm"] and calls[3]["norm"] != calls[2]["norm"]
