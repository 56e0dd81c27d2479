"""Cells in compiled graphs: control flow and tensor loops are recorded, what cannot be recorded is told by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import msprobe
from tests.adapters.mindspore.graph_programs import run

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]
MODES = ["graph", "jit"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("cells")
    return folder, {mode: run("unmeasured.py", folder / mode, mode).stdout for mode in ("dynamic", *MODES)}


def names(folder: Path) -> list[str]:
    (path,) = folder.glob("step0/*/dump.json")
    return list(json.loads(path.read_text())["data"])


@pytest.mark.parametrize("mode", MODES)
def test_results_and_gradients_are_the_same(said: tuple[Path, dict[str, str]], mode: str) -> None:
    (line,) = [line for line in said[1][mode].splitlines() if line.startswith("SAME ")]
    assert json.loads(line[5:]) == {"Branch": True, "Loop": True, "OwnGradient": True, "Unused": True}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("net", ["Branch", "Loop"])
def test_control_flow_is_that_of_the_dynamic_graph(said: tuple[Path, dict[str, str]], mode: str, net: str) -> None:
    folder, _ = said
    assert msprobe.compare(folder / mode / net, folder / "dynamic" / net).verdict == "same"


@pytest.mark.parametrize("mode", MODES)
def test_a_cell_with_a_bprop_has_its_forward_call(said: tuple[Path, dict[str, str]], mode: str) -> None:
    folder, output = said
    assert "Cell.doubled.Doubled.forward.0" in names(folder / mode / "OwnGradient")
    assert "Cell.doubled.Doubled.backward.0" not in names(folder / mode / "OwnGradient")
    assert "not measured: the gradients of calls of Cell.doubled.Doubled" in output[mode]


@pytest.mark.parametrize("mode", MODES)
def test_calls_that_the_graph_does_not_run_are_told(said: tuple[Path, dict[str, str]], mode: str) -> None:
    folder, output = said
    assert "Cell.unused.Dense.forward.0" not in names(folder / mode / "Unused")
    for cell in ("Cell.unused.Dense", "Cell.other.Dense"):
        assert f"not measured: {cell}. The source calls it" in output[mode]
    assert "not measured: Cell.taken.Dense" not in output[mode]
    assert "not measured: Cell.used.Dense" not in output[mode]
    assert "not measured" not in output["dynamic"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("net", "listed", "named"),
    [
        ("OwnGradient", ["Cell.doubled.Doubled.backward"], "could not measure Cell.doubled.Doubled.backward"),
        ("Unused", ["Cell.unused.Dense"], "could not measure Cell.unused.Dense"),
    ],
)
def test_what_is_not_measured_is_no_difference(
    said: tuple[Path, dict[str, str]], mode: str, net: str, listed: list[str], named: str
) -> None:
    folder, _ = said
    (path,) = (folder / mode / net).glob("step0/*/dump.json")
    assert json.loads(path.read_text())["not_measured"] == listed
    for left, right in [(mode, "dynamic"), ("dynamic", mode)]:
        result = msprobe.compare(folder / left / net, folder / right / net)
        assert result.verdict == "same"
        assert any(named in note for note in result.outcomes[0].notes)
