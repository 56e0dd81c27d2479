"""Rows that differ, by operator: counts, the worst and the first one, of one pair and of several."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.operator_groups import merged_groups, operator_of
from msprobe.compare.rows.summary import OperatorGroup
from msprobe.core.errors import InterfaceError
from tests.compare.dumps import call, gradient, module, tensor, write


def run(folder: Path, relu: float, norm: float = 1.0, calls: int = 40) -> Path:
    """Write a dump of independent calls, of which those of relu grow apart."""
    data: dict[str, Any] = {"Functional.linear.0.forward": call([tensor()], [tensor(0.5)])}
    for number in range(calls):
        data[f"Functional.relu.{number}.forward"] = call([tensor()], [tensor(0.5 + relu * (number + 1))])
    data["Module.layers.0.norm.LayerNorm.forward.0"] = module([tensor()], [tensor(norm)])
    data["Module.layers.0.norm.LayerNorm.backward.0"] = gradient([tensor(norm)], [tensor()])
    return write(folder, data)


def test_forty_rows_are_one_kernel(tmp_path: Path) -> None:
    bad, good = run(tmp_path / "bad", 0.01, norm=1.5), run(tmp_path / "good", 0.0)
    summary = msprobe.compare(bad, good, output=tmp_path / "out", group_by="operator").summary
    relu, *norms = summary.operators
    assert (relu.operator, relu.phase, relu.rows, relu.calls, relu.errors) == ("Functional.relu", "forward", 40, 40, 40)
    assert relu.first == "Functional.relu.0.forward output.0"
    assert relu.worst_row == "Functional.relu.39.forward output.0"
    assert relu.worst is not None and relu.worst > 1
    assert {(one.operator, one.phase) for one in norms} == {
        ("Module.LayerNorm", "forward"),
        ("Module.LayerNorm", "backward"),
    }
    (table,) = (Path(path) for path in summary.results if "compare_operators" in path)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(rows[0][title]) for title in ("Operator", "Phase", "Rows")] == ["Functional.relu", "forward", "40"]
    assert summary.document()["operators"][0]["first"] == relu.first


def test_without_the_option_and_without_differences_there_are_no_groups(tmp_path: Path) -> None:
    bad, good = run(tmp_path / "bad", 0.01), run(tmp_path / "good", 0.0)
    assert msprobe.compare(bad, good).summary.operators == []
    assert msprobe.compare(good, good, group_by="operator").summary.operators == []
    with pytest.raises(InterfaceError, match="group_by is operator, got 'modul'"):
        msprobe.compare(bad, good, group_by="modul")


def test_calls_of_one_side_and_several_ranks(tmp_path: Path) -> None:
    for rank, calls in enumerate((3, 2)):
        run(tmp_path / "bad" / "step0" / f"rank{rank}", 0.01 * (rank + 1), calls=calls)
        run(tmp_path / "good" / "step0" / f"rank{rank}", 0.0, calls=4)
    for executor in ("serial", "processes:2"):
        summary = msprobe.compare(tmp_path / "bad", tmp_path / "good", group_by="operator", executor=executor).summary
        (group,) = summary.operators
        assert (group.rows, group.errors, group.alone, group.step, group.rank) == (5 + 3 * 2, 5, 3 * 2, 0, 0)
        assert group.worst_row == "Functional.relu.1.forward output.0"
        json.dumps(summary.document())


def test_the_largest_groups_come_first() -> None:
    first = [OperatorGroup("a", "forward", rows=9, errors=1, worst=2.0, worst_row="x", first="one", step=0)]
    second = [OperatorGroup("b", "", rows=3, errors=3), OperatorGroup("a", "forward", rows=1, worst=5.0, worst_row="y")]
    merged = merged_groups([first, second])
    assert [(one.name, one.rows) for one in merged] == [("b", 3), ("a (forward)", 10)]
    assert (merged[1].worst, merged[1].worst_row, merged[1].first, merged[1].step) == (5.0, "y", "one", 0)
    assert first[0].rows == 9


@pytest.mark.parametrize(
    ("name", "operator", "phase"),
    [
        ("Aten._softmax_backward_data.3.forward", "Aten._softmax_backward_data", "forward"),
        ("Distributed.all_reduce.0.forward", "Distributed.all_reduce", "forward"),
        ("Module.a.b.Linear.backward.2", "Module.Linear", "backward"),
        ("odd", "odd", ""),
    ],
)
def test_the_operator_of_an_entry(name: str, operator: str, phase: str) -> None:
    assert operator_of(name) == (operator, phase)
