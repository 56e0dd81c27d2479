"""What the engine of ``compare`` may hold: lines, numbers, fields of its table, words of its page.

A budget that is not met yet stands in ``MORE`` with the present count, which may only fall.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from pathlib import Path

import pytest

from msprobe.compare.exemptions.on_demand import EXEMPTIONS
from msprobe.compare.table.table import LeafTable
from tests.rules.tree import ROOT, sources
from tests.rules.tree_figures import line_count

JUDGING = ("compare", "analyze", "numerics")
BUDGETS = {"lines": 18_000, "numbers": 200, "fields": 14, "treatments": 12, "words": 1_800}
MORE = {"lines": 28_660, "numbers": 435, "fields": 29}


def _files(*packages: str) -> list[Path]:
    return [path for path in sources() if path.relative_to(ROOT / "msprobe").parts[0] in packages]


def _numbers(path: Path) -> int:
    """Return how many numbers stand in the assignments of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    nodes = (node for one in body if isinstance(one, (ast.Assign, ast.AnnAssign)) for node in ast.walk(one))
    return sum(1 for node in nodes if isinstance(node, ast.Constant) and type(node.value) in {int, float})


@functools.cache
def counts() -> dict[str, int]:
    """Return what the engine holds."""
    return {
        "lines": sum(map(line_count, _files("compare", "trace"))),
        "numbers": sum(map(_numbers, _files(*JUDGING))),
        "fields": len(dataclasses.fields(LeafTable)),
        "treatments": len(EXEMPTIONS),
        "words": len((ROOT / "docs" / "guide" / "verdicts.md").read_text(encoding="utf-8").split()),
    }


@pytest.mark.parametrize("what", BUDGETS)
def test_the_engine_keeps_its_budget(what: str) -> None:
    assert counts()[what] <= MORE.get(what, BUDGETS[what])


@pytest.mark.parametrize("what", MORE)
def test_what_is_over_its_budget_is_so_still(what: str) -> None:
    assert counts()[what] > BUDGETS[what], f"remove {what} from MORE"
