"""The line of a call comes from the run that made it, also where the other run has another call of that name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.report.summary_text import summary_text
from tests.compare.dumps import call, module, tensor, write

HEAD, TAIL = "Module.head.Linear.forward.0", "Module.tail.Linear.forward.0"
RELU = "Functional.relu.{}.forward"
GOLDEN_LINE = 'File "golden.py", line 7, in forward, x = relu(x)'
TARGET_LINE = 'File "target.py", line 9, in forward, y = relu(y)'


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """The golden run calls relu in ``head`` and in ``tail``, the target in ``tail`` alone: its first relu is the second
    one of the golden run, which has the name of the call that the target lacks."""
    layer = module([tensor()], [tensor()], weight=tensor())
    other = module([tensor()], [tensor(1.5)], weight=tensor())
    relu, own = call([tensor()], [tensor()]), call([tensor()], [tensor(1.5)])
    first, second = RELU.format(0), RELU.format(1)
    target = write(
        tmp_path / "t",
        {HEAD: layer, first: relu, TAIL: layer},
        {first: TAIL, HEAD: None, TAIL: None},
        {first: [TARGET_LINE]},
    )
    golden = write(
        tmp_path / "g",
        {first: own, HEAD: other, second: relu, TAIL: layer},
        {first: HEAD, HEAD: None, second: TAIL, TAIL: None},
        {first: [GOLDEN_LINE], second: [TARGET_LINE]},
    )
    return target, golden


def test_the_first_divergence_names_the_line_of_the_golden_run(runs: tuple[Path, Path]) -> None:
    found = msprobe.compare(*runs).summary.first_divergence
    assert found is not None and (found.target, found.golden) == (None, RELU.format(0))
    assert (found.stack, found.module) == ([GOLDEN_LINE], "head.Linear")


def test_every_report_names_the_line_of_the_golden_run(runs: tuple[Path, Path], tmp_path: Path) -> None:
    result = msprobe.compare(*runs, junit=tmp_path / "report.xml", html=tmp_path / "report.html")
    texts = [str(result), json.dumps(result.summary.document()), (tmp_path / "report.xml").read_text()]
    texts.append((tmp_path / "report.html").read_text())
    for text in texts[1:]:
        assert "golden.py" in text and "target.py" not in text.partition("first")[0]


def test_tables_have_the_stack_of_each_side(runs: tuple[Path, Path]) -> None:
    (comparison,) = msprobe.compare(*runs).comparisons()
    rows = [dict(zip(comparison.columns, row.cells, strict=True)) for row in comparison.rows()]
    stacks = {(row["NPU Name"], row["Bench Name"]): (row["NPU_Stack_Info"], row["Bench_Stack_Info"]) for row in rows}
    one, two = (f"{RELU.format(number)}.input.0" for number in (0, 1))
    assert stacks["N/A", one] == ("N/A", str([GOLDEN_LINE]))
    assert stacks[one, two] == (str([TARGET_LINE]), "N/A")  # both runs make it in this line


def test_tables_of_the_reference_policy_have_its_columns(runs: tuple[Path, Path]) -> None:
    (comparison,) = msprobe.compare(*runs, policy="reference").comparisons()
    assert comparison.columns[-1] == "NPU_Stack_Info"


def test_both_lines_are_shown_where_they_differ(tmp_path: Path) -> None:
    name = RELU.format(0)
    sides = []
    for side, scale, line in (("t", 3.0, TARGET_LINE), ("g", 1.0, GOLDEN_LINE)):
        sides.append(write(tmp_path / side, {name: call([tensor()], [tensor(scale)])}, {}, {name: [line]}))
    files = {"junit": tmp_path / "r.xml", "html": tmp_path / "r.html"}
    result = msprobe.compare(*sides, output=tmp_path / "o", **files)
    found = result.summary.first_divergence
    assert found is not None and (found.stack, found.golden_stack) == ([TARGET_LINE], [GOLDEN_LINE])
    ours, theirs = "target.py:9 in forward: y = relu(y)", "golden.py:7 in forward: x = relu(x)"
    assert (found.source, found.golden_source) == (ours, theirs)
    texts = [summary_text(result.summary), *(path.read_text() for path in files.values())]
    texts += ["\n".join(diff_analyze(*sides, tmp_path / "da").lines)]
    assert all(ours in text and theirs in text for text in texts)
    (table,) = result.summary.results
    assert "target.py" in Path(table).read_text() and "golden.py" in Path(table).read_text()


def test_a_target_without_stacks_does_not_borrow_those_of_the_golden_run(tmp_path: Path) -> None:
    name = RELU.format(0)
    target = write(tmp_path / "t", {name: call([tensor()], [tensor(3.0)])})
    golden = write(tmp_path / "g", {name: call([tensor()], [tensor()])}, {}, {name: [GOLDEN_LINE]})
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None and (found.stack, found.source, found.golden_stack) == ([], "", [GOLDEN_LINE])


def test_the_analysis_of_differences_names_the_line_of_the_golden_run(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (calls,) = diff_analyze(*runs, tmp_path / "out").document.values()
    assert (calls[0]["op_name"], calls[0]["stack_info"]) == (RELU.format(0), [GOLDEN_LINE])


def test_calls_of_one_name_on_both_sides_keep_their_own_values(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """Only the golden run has its first relu; the first relu of the target is the second of the golden run."""
    result = diff_analyze(*runs, tmp_path / "out")
    ((found,),) = result.document.values()
    assert list(found["data_info"]["output"]) == [f"{RELU.format(0)}.output.0"]
    assert "Bench max" in found["data_info"]["output"][f"{RELU.format(0)}.output.0"]
    record = json.loads(result.files[0].read_text())[RELU.format(0)]
    names = [(item["NPU Name"], item["Bench Name"]) for item in record["op_items"] if item["state"] == "output"]
    one, two = (f"{RELU.format(number)}.output.0" for number in (0, 1))
    assert names == [("N/A", one), (one, two)] and record["is_same"] is False
    stacks = [item["NPU_Stack_Info"] for item in record["op_items"]]
    assert [stack for stack in stacks if stack != "N/A"] == [[TARGET_LINE]]
