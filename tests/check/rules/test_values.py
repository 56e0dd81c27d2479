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
