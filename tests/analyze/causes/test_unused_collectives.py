"""A collective of a copy: both runs agree on what it returned, and one of them goes on without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, gradient, tensor, write

LOCAL, REDUCED, OTHER = tensor(1.0), tensor(2.3), tensor(3.1)
REDUCE, SCALE = "Distributed.all_reduce.0.forward", "Tensor.div_.0.forward"


def run(folder: Path, goes_on: dict[str, Any]) -> Path:
    halved = {**goes_on, **{name: goes_on[name] / 2 for name in ("Max", "Min", "Mean", "Norm")}}
    return write(
        folder,
        {
            "Torch.relu.0.forward": call([OTHER], [OTHER]),
            REDUCE: call([LOCAL], [REDUCED]),
            SCALE: call([goes_on], [halved]),
        },
        stack={REDUCE: ["File train.py, line 7, in step, \n dist.all_reduce(gradient)"]},
    )


@pytest.mark.parametrize("in_golden", [False, True])
def test_the_collective_is_named(tmp_path: Path, in_golden: bool) -> None:
    used, unused = run(tmp_path / "used", REDUCED), run(tmp_path / "unused", LOCAL)
    target, golden = (used, unused) if in_golden else (unused, used)
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None
    assert (found.target, found.golden, found.kind) == (REDUCE, REDUCE, "value")
    side = "golden run" if in_golden else "target"
    assert found.reason.startswith(f"the {side} goes on with what it gave to this call")
    assert f"then input.0 of {SCALE}" in found.reason
    assert "line 7" in "".join(found.stack)


def test_another_value_is_not_blamed_on_a_collective(tmp_path: Path) -> None:
    found = msprobe.compare(run(tmp_path / "bad", OTHER), run(tmp_path / "good", REDUCED)).summary.first_divergence
    assert found is not None
    assert found.target == SCALE


def test_the_gradient_of_a_module_may_show_it(tmp_path: Path) -> None:
    def backward(folder: Path, result: dict[str, Any]) -> Path:
        entries = {
            "Module.up.Up.forward.0": call([tensor(5.0)], [OTHER]),
            REDUCE: call([LOCAL], [REDUCED]),
            "Module.up.Up.backward.0": gradient([OTHER], [result]),
        }
        return write(folder, entries, {REDUCE: "Module.up.Up.backward.0"})

    result = msprobe.compare(backward(tmp_path / "bad", LOCAL), backward(tmp_path / "good", REDUCED))
    found = result.summary.first_divergence
    assert found is not None
    assert found.target == REDUCE
