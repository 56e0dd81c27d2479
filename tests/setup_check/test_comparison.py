"""The cells of ``result.xlsx`` against those that mindstudio-probe writes for the same set-ups.

``tests/golden_setup`` holds set-ups that it collected, and the cells of its results: of models with inputs and weights,
of scripts of Megatron, transformers and LLaVA, of yaml files, of NPU against GPU. Departures on purpose are in
docs/compatibility/setup_check.md: its sheet ``env`` has both sides swapped, and it leaves synonyms alone that we pair.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from msprobe.setup_check.differences.hyperparameters import SYNONYMS
from msprobe.setup_check.job import compare_setups
from tests.rules.tree import ROOT

GOLDEN = ROOT / "tests/golden_setup"
EXPECTED: dict[str, dict[str, list[list[Any]]]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
LEAST = {False: 0.98, True: 0.95}
"""Without and with the cells of departures on purpose."""
LEAST_OF_A_PAIR = 0.95


def agreeing(ours: list[list[Any]], theirs: list[list[Any]]) -> tuple[int, int]:
    """Return how many cells of their rows stand in a row of ours, and how many they are.

    Rows that agree most are paired first, each once; a row without a partner agrees in no cell.
    """
    width, found = len(theirs[0]), 0
    scores = [(sum(map(same, a, b)), i, j) for i, a in enumerate(ours) for j, b in enumerate(theirs)]
    left, right = set(range(len(ours))), set(range(len(theirs)))
    for score, i, j in sorted(scores, reverse=True):
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            found += score
    return found, width * len(theirs)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    return str(ours) == str(theirs)


def without_departures(sheet: str, ours: list[list[Any]], theirs: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    """Undo the swapped sides of its sheet ``env``, and leave out the rows of synonyms that it does not pair."""
    if sheet == "env":
        return ours, [theirs[0], *([row[1], row[0], row[3], row[2], row[4]] for row in theirs[1:])]
    if sheet != "hyperparameters":
        return ours, theirs
    alone = [{str(row[at]) for row in theirs if str(row[3 - at]).startswith("Only in")} for at in (1, 2)]
    names = [{name for name in side if synonyms(name) & set(map(plain, other))} for side, other in (alone, alone[::-1])]
    return (
        [row for row in ours if not (row[5] == "mapping" and row[1] in names[0] and row[2] in names[1])],
        [row for row in theirs if not (row[1] in names[0] or row[2] in names[1])],
    )


def plain(name: str) -> str:
    return name.rpartition(".")[2].replace("-", "_")


def synonyms(name: str) -> frozenset[str]:
    return next((names for names in SYNONYMS if plain(name) in names), frozenset())


def counted(pair: str, folder: Path, with_departures: bool) -> tuple[int, int]:
    """Return how many cells of the recorded result of a pair are in ours, and how many it has."""
    calamine = pytest.importorskip("python_calamine")
    first, second = (GOLDEN / "packs" / f"{name}.zip" for name in pair.split())
    compare_setups(first, second, folder)
    book = calamine.CalamineWorkbook.from_path(str(folder / "result.xlsx"))
    found = total = 0
    for name, rows in EXPECTED[pair].items():
        ours = [[None if cell == "" else cell for cell in row] for row in book.get_sheet_by_name(name).to_python()]
        agreed, cells = agreeing(*((ours, rows) if with_departures else without_departures(name, ours, rows)))
        found, total = found + agreed, total + cells
    return found, total


@pytest.mark.parametrize("with_departures", LEAST)
def test_cells_agree(with_departures: bool, tmp_path: Path) -> None:
    counts = {pair: counted(pair, tmp_path / pair, with_departures) for pair in EXPECTED}
    found, total = (sum(each) for each in zip(*counts.values(), strict=True))
    assert total > 6000
    assert found / total >= LEAST[with_departures], counts
    if not with_departures:
        assert all(agreed / cells >= LEAST_OF_A_PAIR for agreed, cells in counts.values()), counts
