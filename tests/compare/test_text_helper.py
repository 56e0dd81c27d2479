"""The helper process writes what this process would write; where it is lost, nobody notices."""

from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.plain import FloatPairs, statistics_cells
from msprobe.compare.text_helper import ROWS_AT_ONCE, TextHelper, current_helper, text_helper
from msprobe.report import comparison, rank
from msprobe.report.comparison import compare
from tests.compare.dumps import call, number, tensor, write


def pairs(rows: int) -> FloatPairs:
    random = np.random.default_rng(1)
    values = random.standard_normal((rows, 8)) * 10.0 ** random.integers(-20, 20, (rows, 1))
    values[::7, 4:] = values[::7, :4]
    values[::11, 3] = np.nan
    values[::13, 5] = 0.0
    return FloatPairs(np.arange(rows) * 2, values)


@pytest.mark.parametrize("rows", [0, 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 3])
def test_the_same_texts(rows: int) -> None:
    found = pairs(rows)
    helper = TextHelper()
    helper.begin(found.values)
    try:
        for start in range(0, 2 * rows, 3001):
            stop = start + 3001
            assert statistics_cells(found, start, stop, helper) == statistics_cells(found, start, stop)
    finally:
        helper.close()
    assert rows == 0 or helper.texts(0, 1) is not None


def test_a_lost_helper_is_replaced() -> None:
    found = pairs(3 * ROWS_AT_ONCE)
    helper = TextHelper()
    helper.close()
    helper.begin(found.values)
    assert helper.texts(0, 10) is None
    assert len(statistics_cells(found, 0, 100, helper)) > 30


def test_tables_are_the_same_with_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"Functional.relu.{k}.forward" for k in range(300)]
    for side, scale in (("t", 1.1), ("g", 1.0)):
        write(tmp_path / side, {n: call([tensor(), number(3)], [tensor(scale)]) for n in names})
    tables = []
    used: list[bool] = []
    monkeypatch.setattr(rank, "_WORTH_BYTES", 0)
    for cores in (1, 2):
        monkeypatch.setattr(comparison, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(rank, "text_helper", lambda wanted: used.append(wanted) or text_helper(wanted=wanted))
        result = compare(tmp_path / "t", tmp_path / "g", output=tmp_path / "o")
        tables.append(Path(result.summary.results[0]).read_text())
    assert used == [False, True] and tables[0] == tables[1]
    assert current_helper() is None
