"""``msprobe support`` prints what the documentation shows, with no framework loaded."""

from __future__ import annotations

import json

import pytest

from msprobe.cli.main import run
from msprobe.core.backend.support_matrix import cells
from msprobe.report.support_tables import page
from tests.rules.test_import_cost import FRAMEWORKS, loaded_by
from tests.rules.tree import ROOT


def test_the_page_of_the_documentation_is_fresh() -> None:
    written = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    assert written == page(list(cells())), "stale: run scripts/support_page and commit the result"


def test_four_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["support"]) == 0
    tasks, features, keys, watches = capsys.readouterr().out.split("\n\n")
    assert tasks.split("\n")[0].split() == ["framework", "task", "L0", "L1", "mix", "L2", "debug"]
    assert ["pytorch", "nan_check", "-", "yes", "-", "-", "-"] in [row.split() for row in tasks.split("\n")]
    assert "dump_enable" in features
    assert ["gradients_of_step", "yes", "-", "-", "-", "-"] in [row.split() for row in keys.split("\n")]
    assert ["TrainerMon", "yes", "yes", "-", "-", "yes"] in [row.split() for row in watches.split("\n")]


def test_markdown_is_that_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["support", "--format", "markdown"]) == 0
    written = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    assert all(table.strip() in written for table in capsys.readouterr().out.split("\n\n"))


def test_one_feature(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["support", "--feature", "custom_op_namespaces"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert {row.split()[0] for row in rows[1:]} == {"pytorch"}


def test_every_combination_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["support", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"framework", "task", "level", "features"} == set(found[0])
    assert {cell["framework"] for cell in found} >= {"pytorch", "msadapter"}


@pytest.mark.parametrize(("name", "said"), [("nothing", "is no feature"), ("list", ""), ("custom", "is part of")])
def test_a_feature_by_part_of_its_name(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["support", "--feature", name]) == (2 if said else 0)
    assert said in capsys.readouterr().err


def test_no_framework_is_loaded() -> None:
    code = "import sys; sys.argv = ['msprobe', 'support']\nfrom msprobe.cli.main import main\nmain()"
    assert not loaded_by(code) & FRAMEWORKS
