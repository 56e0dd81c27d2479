"""Metrics of the user: where they come from, and that none of them can end a comparison."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.errors import MsprobeException
from msprobe.numerics.metrics import user_metrics
from msprobe.numerics.metrics.user_metrics import GROUP, load_metrics

ONE = np.ones(3)
SOURCE = """
import numpy

def gap(n, b):
    return float(numpy.abs(n - b).sum())

class Bias:
    column_name = "Bias"

    def compare(self, n, b):
        return (n - b).mean(), "signed"

bias = Bias()
nothing = 7

def column_name():
    return "Whole module"

def compare(n, b):
    return "text"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "own_metrics.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_metrics", raising=False)
    return path


@pytest.mark.parametrize("form", ["module", "file"])
def test_named_on_the_command_line(form: str, module: Path) -> None:
    place = "own_metrics" if form == "module" else str(module)
    found = load_metrics([f"{place}:gap", f"{place}:bias", place])
    assert [metric.title for metric in found] == ["gap", "Bias", "Whole module"]
    assert [metric.cell(2 * ONE, ONE) for metric in found] == [(3.0, ""), (1.0, "Bias: signed"), ("text", "")]


def test_named_by_an_installed_package(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("l1", "own_metrics:gap", GROUP), EntryPoint("b", "own_metrics:bias", GROUP)]
    monkeypatch.setattr(user_metrics, "entry_points", lambda group: entries if group == GROUP else [])
    assert [metric.title for metric in load_metrics()] == ["Bias", "l1"]


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_metrics, "entry_points", lambda group: [EntryPoint("broken", "no_such_module:f", GROUP)])
    with pytest.raises(MsprobeException, match="entry point broken = no_such_module:f cannot be loaded"):
        load_metrics()


WRONG = {
    "no_such_module:f": "cannot be loaded",
    "no_such_file.py:f": "no such file",
    "own_metrics:absent": "cannot be loaded",
    "own_metrics:nothing": "is no metric",
}


@pytest.mark.parametrize("named", list(WRONG))
def test_what_cannot_be_a_metric_is_an_error(named: str, module: Path) -> None:
    with pytest.raises(MsprobeException, match=WRONG[named]):
        load_metrics([named])


@pytest.mark.parametrize("taken", ["duplicate", "reserved"])
def test_a_title_that_is_taken(taken: str, module: Path) -> None:
    named = ["own_metrics:gap"] * (2 if taken == "duplicate" else 1)
    with pytest.raises(MsprobeException, match="column 'gap' exists already"):
        load_metrics(named, reserved=["gap"] if taken == "reserved" else [])


def _raises(n: Any, b: Any) -> Any:
    raise ZeroDivisionError("no\nluck")


FAILURES = {"raises": (_raises, "ZeroDivisionError: no luck"), "list": (lambda n, b: [1], "returned list")}


@pytest.mark.parametrize("case", list(FAILURES))
def test_a_failure_is_unsupported_with_a_reason(case: str) -> None:
    function, reason = FAILURES[case]
    cell, note = user_metrics.Metric("own", function).cell(ONE, ONE)
    assert cell == "unsupported" and note.startswith(f"own: {reason}")


def test_numpy_scalars_and_nan_become_cells() -> None:
    assert user_metrics.Metric("own", lambda n, b: np.float32(0.5)).cell(ONE, ONE) == (0.5, "")
    assert user_metrics.Metric("own", lambda n, b: float("nan")).cell(ONE, ONE) == ("Nan", "")
    assert user_metrics.Metric("own", lambda n, b: True).cell(ONE, ONE) == ("True", "")
