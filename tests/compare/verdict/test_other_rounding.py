"""Beside other code, what leaves a step says how much of a gradient is rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.comparison import compare_dumps
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, gradient, tensor, with_loss, write

FORWARD, BACKWARD, CLIP = "Functional.linear.0.forward", "Functional.linear.0.backward", "Torch._foreach_norm.0.forward"


def run(backward: dict[str, Any], *, other: bool, weight: float = 3.0, further: dict[str, Any] | None = None) -> Any:
    """A step with the backward call of a layer; ``other`` makes what the loss gets by another function."""
    data = with_loss({BACKWARD: backward})
    leaving = tensor(weight, Mean=0.884 * weight, Projection=0.3 * weight)
    data["Module.layer.Linear.parameters_grad.0"] = {"weight": [leaving]}
    return {
        FORWARD: call([tensor(6.0), tensor(4.0)], [tensor(5.0)]),
        f"Tensor.{'__mul__' if other else '__truediv__'}.0.forward": call([tensor(5.0)], [tensor(7.0)]),
        **data,
        **(further or {}),
    }


def diverges(folder: Path, target: dict[str, Any], golden: dict[str, Any]) -> bool:
    for name, data in (("t", target), ("g", golden)):
        write(folder / name, data, {one: "clip_grad" if one == CLIP else None for one in data})
    dumps = (load_dump(find_dumps(folder / name)[0]) for name in ("t", "g"))
    return bool(compare_dumps(*dumps).row_levels.diverging.any())


@pytest.mark.parametrize(
    ("other", "inside", "leaving", "wrong"),
    [(True, 5e-5, 1e-5, False), (True, 5e-5, 1e-4, True), (False, 5e-5, 1e-5, True)],
)
def test_gradients_on_the_way_are_as_near_as_those_that_leave(
    tmp_path: Path, other: bool, inside: float, leaving: float, wrong: bool
) -> None:
    golden = run(gradient([tensor(1.0)], [tensor(2.0)]), other=False)
    target = run(gradient([tensor(1.0)], [tensor(2.0 + 2.0 * inside)]), other=other, weight=3.0 + 3.0 * leaving)
    assert diverges(tmp_path, target, golden) is wrong


@pytest.mark.parametrize(("rows", "wrong"), [(4, True), (2, False)])
def test_a_gradient_more_counts_where_both_get_one_of_a_shape(tmp_path: Path, rows: int, wrong: bool) -> None:
    golden = run(gradient([tensor(1.0)], [tensor(2.0)]), other=False)
    target = run(gradient([tensor(1.0, shape=(rows, 8))], [tensor(2.0, shape=(rows, 8)), tensor(9.0)]), other=True)
    assert diverges(tmp_path, target, golden) is wrong


@pytest.mark.parametrize(("apart", "wrong"), [(1e-5, False), (1e-4, True)])
def test_gradients_that_are_clipped_are_as_near_as_those_that_leave(tmp_path: Path, apart: float, wrong: bool) -> None:
    """They come in another order."""
    same = gradient([tensor(1.0)], [tensor(2.0)])
    norms = [tensor(1.0, shape=()), tensor(2.0, shape=())]
    golden = {CLIP: call([[tensor(3.0), tensor(4.0)]], [norms])}
    target = {CLIP: call([[tensor(4.0 + 4.0 * apart), tensor(3.0)]], [norms[::-1]])}
    found = diverges(tmp_path, run(same, other=True, further=target), run(same, other=False, further=golden))
    assert found is wrong


@pytest.mark.parametrize(("size", "wrong"), [(0.2, False), (3.0, True)])
def test_a_gradient_smaller_than_usual_carries_more_of_the_rounding(tmp_path: Path, size: float, wrong: bool) -> None:
    """The terms that are rounded are those of all gradients."""

    def leaving(of_bias: float) -> dict[str, Any]:
        return {"Module.layer.Linear.parameters_grad.0": {"weight": [tensor(3.0)], "bias": [tensor(of_bias)]}}

    same = gradient([tensor(1.0)], [tensor(2.0)])
    target, golden = leaving(size * (1.0 + 6e-5)), leaving(size)
    assert diverges(tmp_path, run(same, other=True, further=target), run(same, other=False, further=golden)) is wrong
