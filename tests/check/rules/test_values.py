"""Sizes over the depth of a model, and values that are not finite."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.check.rules.values import exploding
from tests.check.made_facts import facts, module, run_of


def test_layers_that_grow_a_thousandfold_over_their_depth_are_found() -> None:
    grows = [module(f"model.layers.{n}", 10.0**n) for n in range(5)]
    (found,) = exploding(run_of(facts(modules=grows)))
    assert (found.module, found.certainty) == ("model.layers.1", "likely")


def test_layers_of_one_order_and_parts_of_layers_are_let_pass() -> None:
    steady = [module(f"model.layers.{n}", 1.0 + n) for n in range(5)]
    parts = [module(f"model.layers.{n}.mlp", 10.0**n) for n in range(5)]
    assert list(exploding(run_of(facts(modules=steady + parts)))) == []


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_overflow_that_stays_in_gradients_is_told_as_what_keeps_it_there(tmp_path: Path) -> None:
    """A gradient scaler skips the steps, so that it is no finding that the clipping of the next one gets NaN."""
    pytest.importorskip("torch")
    from tests.check.planted_programs import never_cleared_while_scaled
    from tests.check.recorded import judged

    found = judged(tmp_path / "wrong", never_cleared_while_scaled, True)
    assert [one.rule for one in found.findings] == ["gradients_not_cleared"]
    made, kept = (one for one in found.hints if one.rule == "non_finite")
    assert (made.step, kept.step) == (0, 1)
    assert "already; no earlier call of the step made it" in kept.reason
    assert judged(tmp_path / "right", never_cleared_while_scaled, False).findings == []


@pytest.mark.torch
@pytest.mark.parametrize("value", [float("inf"), float("nan")], ids=["infinity", "NaN"])
def test_data_that_are_not_finite_are_named_at_the_call_that_gets_them(tmp_path: Path, value: float) -> None:
    """Also where the program looks at the loss and leaves the step out."""
    torch = pytest.importorskip("torch")
    from tests.check.planted_programs import Debugger
    from tests.check.recorded import judged

    def program(debugger: Debugger) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for number in range(3):
            data = torch.randn(3, 4)
            if number == 1:
                data[1] = value
            with debugger.collect(model=model):
                optimizer.zero_grad()
                loss = model(data).square().mean()
                if loss.isfinite():
                    loss.backward()
                    optimizer.step()

    (found,) = judged(tmp_path / "run", program).findings
    assert (found.rule, found.step, found.call) == ("non_finite", 1, "Functional.linear.0.forward")
    assert "is in its input input.0 already" in found.reason
