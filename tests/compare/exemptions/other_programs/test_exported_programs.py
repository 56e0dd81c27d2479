"""Calls of an exported program: arguments that are lost are no difference, results and other values are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

NAME = "Module.layer.Layer.forward.0"
LOST = {"input_kwargs": {"not_recorded": {"type": "str", "value": "lost"}}}
Q, K = tensor(), {**tensor(), "Max": 5.0, "Min": -5.0, "Mean": 0.5, "Norm": 9.0}


def pair(folder: Path, own: dict[str, Any], golden: dict[str, Any]) -> Any:
    write(folder / "exported", {NAME: {**own, **LOST}})
    write(folder / "eager", {NAME: golden})
    return compare(folder / "exported", folder / "eager").summary


def test_a_tensor_that_is_given_twice_and_arguments_that_are_none(tmp_path: Path) -> None:
    golden = call([Q, Q, {"type": "int", "value": 3}], [K])
    found = pair(tmp_path, call([Q], [K]), golden)
    assert found.verdict == "same"
    assert "1 entries are calls put together" in found.reason


def test_the_order_of_the_first_use(tmp_path: Path) -> None:
    assert pair(tmp_path, call([K, Q], [Q]), call([Q, K], [Q])).verdict == "same"


def test_another_input_is_a_difference(tmp_path: Path) -> None:
    other = {**K, "Max": 50.0, "Norm": 90.0}
    found = pair(tmp_path, call([other, Q], [other]), call([K, Q], [Q]))
    assert found.verdict == "diverged"
    assert found.first_divergence.slot == "input.0"


def test_another_result_is_a_difference(tmp_path: Path) -> None:
    found = pair(tmp_path, call([Q], [K]), call([Q, Q], [Q]))
    assert found.verdict == "diverged"
    assert found.first_divergence.slot == "output.0"
