"""Cells made in bulk are those made one by one, and a row reads the same in memory and in the file."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.entries import EntryPair
from msprobe.compare.rows.cells import CellMaker
from msprobe.compare.table.float_pairs import float_pairs
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import Leaf
from msprobe.jobs.compare import compare
from msprobe.numerics.metrics.statistics import difference_cells
from msprobe.report.csv_table import safe_cell
from tests.compare.dumps import call, number, tensor, write

NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 1e-5, 1e16, 5e-324])
STATISTICS = ("Max", "Min", "Mean", "Norm")


def _leaf(values: list[float]) -> Leaf:
    raw = {"dtype": "torch.float32", "shape": [2], **dict(zip(STATISTICS, values, strict=True))}
    return Leaf(".output.0", "output", raw)


@given(st.lists(st.lists(NUMBER, min_size=8, max_size=8), min_size=1, max_size=5))
def test_bulk_equals_one_by_one(rows: list[list[float]]) -> None:
    target, golden = [_leaf(row[:4]) for row in rows], [_leaf(row[4:]) for row in rows]
    table = LeafTable([EntryPair("a", "a")], [*target], [*golden], np.array([0, len(rows)]))
    metrics = CellMaker(Mode.STATISTICS, table, None).cells(0, 1).metrics
    for row, found in zip(rows, zip(*(column.cells() for column in metrics), strict=True), strict=True):
        pairs = [difference_cells(a, b) for a, b in zip(row[:4], row[4:], strict=True)]
        percent = [f"{pair[1]}%" if type(pair[1]) is float else pair[1] for pair in pairs]
        wanted = [pair[0] for pair in pairs] + percent + row
        assert list(map(str, found)) == list(map(str, wanted))


def test_other_rows_are_left_out() -> None:
    odd: list[Any] = [None, _leaf([1, 2.0, 3.0, 1.0]), Leaf("", "", {"value": 1}), Leaf("", "", {"Norm": 1.0})]
    good = [_leaf([1.0] * 4)] * 4
    for pairs in (float_pairs(odd, good), float_pairs(good, odd)):
        assert len(pairs.rows) == 0 and pairs.values.shape == (0, 2, 4)


def test_rows_read_as_they_are_written(tmp_path: Path) -> None:
    arguments = [number(value) for value in (1, 1.5, True, "=1+1", 'a "b", c', None, -0.0, "nan", "-")]
    data = {
        "Torch.a.0.forward": call([tensor(), *arguments], [tensor(Max=math.inf, Norm=math.nan)], **{"=k": tensor(3.0)}),
        "Torch.b.0.forward": call([tensor(dtype="int64", Max=3, Min=1)], [None, {"x,y": tensor()}]),
    }
    other = {**data, "Torch.c.0.forward": call([number(2)], [tensor(data_name="@x.pt")])}
    left = write(tmp_path / "t", data, stack={"Torch.a.0.forward": ["File a.py, line 1, in f, \n y = x"]})
    result = compare(left, write(tmp_path / "g", other), output=tmp_path / "o")
    with open(result.summary.results[0], newline="", encoding="utf-8") as file:
        _, *written = csv.reader(file)
    assert written == [[str(safe_cell(cell)) for cell in row.cells] for row in result.rows()]
    assert len(written) == result.summary.counts.pairs + 2


def test_a_tensor_file_names_only_the_row_of_its_side(tmp_path: Path) -> None:
    ours = {"Torch.a.0.forward": call([tensor(data_name="kept.pt")], [])}
    theirs = {"Torch.a.0.forward": call([tensor(2.0)], [])}
    (row,) = compare(write(tmp_path / "t", ours), write(tmp_path / "g", theirs)).rows()
    assert (row.target, row.golden) == ("kept", "Torch.a.0.forward.input.0")
