"""The line of source that the terminal prints is that of every other output."""

from __future__ import annotations

import ast
import csv
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.records.source_lines import source_line
from msprobe.jobs.compare import compare
from msprobe.report.summary_text import summary_json, summary_text
from tests.compare.dumps import call, module, tensor, write

load_workbook = pytest.importorskip("python_calamine").load_workbook
LINEAR, SINE, GELU = "Functional.linear.0.forward", "Torch.sin.0.forward", "Functional.gelu.0.forward"
BLOCK = "Module.block.Block.forward.0"
FRAMEWORK = "File /env/lib/python3.11/site-packages/torch/nn/modules/module.py, line 1, in _call_impl, \n return f()"
HANDED_ON = "File /env/lib/python3.11/site-packages/lib/layers.py, line 2, in __call__, \n return super().__call__(x)"


def stack_of(line: int, name: str) -> list[str]:
    return [FRAMEWORK, HANDED_ON, f"File /home/me/model.py, line {line}, in forward, \n y = {name}(x)", FRAMEWORK]


def run(folder: Path, lines: dict[str, int], result: float, extra: str | None = None) -> Path:
    """One step of a block, in which ``extra`` is a call of this run alone that changes the value."""
    value = 1.0 if extra is None else 2.5
    data: dict[str, Any] = {SINE: call([tensor(1.0)], [tensor(1.0)])}
    if extra is not None:
        data[extra] = call([tensor(1.0)], [tensor(value)])
    data[LINEAR] = call([tensor(value)], [tensor(result)])
    data[BLOCK] = module([tensor(1.0)], [tensor(result)])
    stacks = {name: stack_of(lines.get(name, 5), name) for name in data}
    return write(folder / "step0" / "rank0", data, {name: None if name == BLOCK else BLOCK for name in data}, stacks)


def stacks_in(rows: Iterable[dict[str, Any]], column: str, name: str) -> set[str]:
    """Return the lines of source of the stacks that a table has for an entry."""
    return {
        source_line(ast.literal_eval(row[column]))
        for row in rows
        if any(row[side].startswith(f"{name}.") for side in ("NPU Name", "Bench Name")) and row[column] != "N/A"
    }


CASES: dict[str, tuple[dict[str, int], dict[str, int], str | None, str | None]] = {
    "same-line": ({}, {}, None, None),
    "other-line": ({LINEAR: 7}, {LINEAR: 9}, None, None),
    "in-target": ({GELU: 7}, {}, GELU, None),
    "in-golden": ({}, {GELU: 9}, None, GELU),
}


@pytest.mark.parametrize("case", CASES)
def test_all_outputs_have_one_line_of_source(tmp_path: Path, case: str) -> None:
    lines, golden_lines, extra, golden_extra = CASES[case]
    target = run(tmp_path / "t", lines, 4.0, extra).parents[1]
    golden = run(tmp_path / "g", golden_lines, 3.0, golden_extra).parents[1]
    junit, html = tmp_path / "r.xml", tmp_path / "r.html"
    summary = compare(target, golden, output=tmp_path / "csv", junit=junit, html=html).summary
    compare(target, golden, output=tmp_path / "xlsx", xlsx=True)

    first = summary.first_divergence
    assert first is not None and first.source.startswith("/home/me/model.py:")
    named = GELU if extra or golden_extra else LINEAR
    assert named in first.name
    assert source_line([first.stack[0]]) == first.source
    printed = [line.strip() for line in summary_text(summary).splitlines() if "source: " in line]
    expected = [f"source: {first.source}{' (golden run)' if golden_extra else ''}"]
    if case == "other-line":
        assert source_line(first.golden_stack) == first.golden_source != first.source
        expected.append(f"golden source: {first.golden_source}")
    if golden_extra:
        assert source_line(first.target_stack) == first.target_source != first.source
        expected.append(f"target source: {first.target_source}")
    assert printed == expected

    document = json.loads(summary_json(summary))["first_divergence"]
    assert (document["source"], document["stack"]) == (first.source, first.stack)
    verdict = next(ET.parse(junit).getroot().iter("failure")).text or ""
    side = "source (golden run)" if golden_extra else "source"
    in_junit = [line for line in verdict.splitlines() if "source" in line.partition(":")[0]]
    assert in_junit == [f"{side}: {first.source}", *expected[1:]]
    page = unescape(html.read_text())
    assert all(line.partition("source: ")[2].removesuffix(" (golden run)") in page for line in expected)

    table = list(csv.DictReader(next((tmp_path / "csv").glob("*.csv")).read_text().splitlines()))
    sheet = load_workbook(next((tmp_path / "xlsx").glob("*.xlsx"))).get_sheet_by_index(0).to_python()
    cells = [dict(zip(map(str, sheet[0]), map(str, row), strict=True)) for row in sheet[1:]]
    for rows in (table, cells):
        own = stacks_in(rows, "Bench_Stack_Info" if golden_extra else "NPU_Stack_Info", named)
        assert own == {first.source}
