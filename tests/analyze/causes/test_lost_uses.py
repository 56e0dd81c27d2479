"""A gradient that one side lacks because it does not use a value: the call that uses it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, gradient, number, tensor, write

TERM, SCALE = "Torch.sum.0.forward", "Tensor.__rmul__.0.forward"
LOSS, MEAN = "Tensor.mean.0.forward", "Functional.mse_loss.0.forward"


def run(*, used: bool, weight: float = 0.1) -> dict[str, Any]:
    """Compute a loss and a term beside it; ``used`` says whether the term is added with a weight."""
    data = {MEAN: call([tensor(1.0)], [tensor(2.0)]), TERM: call([tensor(3.0)], [tensor(4.0)])}
    if used:
        data[SCALE] = call([tensor(4.0), number(weight)], [tensor(0.4)])
        data[SCALE.replace("forward", "backward")] = gradient([tensor(1.0)], [tensor(weight)])
        data[TERM.replace("forward", "backward")] = gradient([tensor(weight)], [tensor(weight)])
    return data | {MEAN.replace("forward", "backward"): gradient([tensor(1.0)], [tensor(0.5)])}


@pytest.mark.parametrize("used", [True, False])
def test_the_call_that_uses_a_value_is_named_and_not_its_lost_gradient(tmp_path: Path, used: bool) -> None:
    pair = [write(tmp_path / side, run(used=own)) for side, own in (("t", used), ("g", not used))]
    found = msprobe.compare(*pair).summary.first_divergence
    assert found is not None and (found.target or found.golden) == SCALE
    assert TERM.replace("forward", "backward") in found.reason


def test_a_gradient_of_a_value_that_both_sides_use_is_lost_where_it_is(tmp_path: Path) -> None:
    sides = []
    for own in (True, False):
        data = run(used=True)
        if not own:
            del data[TERM.replace("forward", "backward")]
        sides.append(write(tmp_path / str(own), data))
    found = msprobe.compare(*sides).summary.first_divergence
    assert found is not None and found.target == TERM.replace("forward", "backward")
