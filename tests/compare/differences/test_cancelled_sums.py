"""Sums of tensors that cancel are nothing but rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

SUM = "Tensor.__sub__.0.forward"


def verdict(folder: Path, target: list[Any], golden: list[Any], function: str = SUM) -> tuple[str, str | None]:
    """Compare a call with these tensors: both operands and the result."""
    for side, values in (("t", target), ("g", golden)):
        write(folder / side, {function: call([tensor(value) for value in values[:2]], [tensor(values[2])])})
    summary = msprobe.compare(folder / "t", folder / "g").summary
    return summary.verdict, summary.first_divergence and summary.first_divergence.target


@pytest.mark.parametrize("function", [SUM, "Torch.sub.0.forward", "Tensor.add_.0.forward"])
def test_what_is_left_of_two_equal_values_is_rounding(tmp_path: Path, function: str) -> None:
    assert verdict(tmp_path, [1.0 + 1e-7, 1.0, 1e-7], [1.0, 1.0, 3e-8], function) == ("same", None)
    assert verdict(tmp_path / "zero", [1.0 + 1e-7, 1.0, 1e-7], [1.0, 1.0, 0.0], function) == ("same", None)


@pytest.mark.parametrize("left", [1e-3, 0.01, 0.06])
def test_a_small_difference_is_as_far_off_as_its_operands(tmp_path: Path, left: float) -> None:
    off = 1e-6
    assert verdict(tmp_path, [1.0 + left + off, 1.0 - off, left + 2 * off], [1.0 + left, 1.0, left]) == ("same", None)
    assert verdict(tmp_path / "wrong", [1.0 + left + off, 1.0, left + 20 * off], [1.0 + left, 1.0, left])[1] == SUM


@pytest.mark.parametrize(
    ("target", "golden", "function"),
    [
        ([1.0, 1.0, 1e-7], [1.0, 1.0, 3e-8], SUM),  # of the same operands
        ([1.0 + 1e-7, 1.0, 1e-3], [1.0, 1.0, 3e-8], SUM),  # more than the rounding of the operands
        ([1.0 + 1e-7, 1.0, 0.5], [1.0, 1.0, 0.6], SUM),  # nothing cancels
        ([1.0 + 1e-7, 1.0, 1e-7], [1.0, 1.0, 3e-8], "Tensor.__mul__.0.forward"),
    ],
)
def test_a_wrong_difference_is_named(tmp_path: Path, target: list[Any], golden: list[Any], function: str) -> None:
    assert verdict(tmp_path, target, golden, function) == ("diverged", function)


@pytest.mark.parametrize(("function", "left"), [("Tensor.mean.0.forward", 5e-8), ("Tensor.sum.0.forward", 2e-6)])
def test_the_mean_of_centred_values_is_rounding(tmp_path: Path, function: str, left: float) -> None:
    def result(folder: str, result: float, golden: float = -1e-9) -> str:
        for side, given, value in (("t", 1.0 + 1e-7, result), ("g", 1.0, golden)):
            one = tensor(value, shape=[], Max=value, Min=value, Mean=value, Norm=abs(value))
            centred = tensor(given, shape=[8, 8], Max=0.2, Min=-0.2, Mean=0.0)
            write(tmp_path / folder / side, {function: call([centred], [one])})
        return str(msprobe.compare(tmp_path / folder / "t", tmp_path / folder / "g").verdict)

    assert result("rounding", left) == "same"
    assert result("wrong", 1e3 * left) == "diverged"
