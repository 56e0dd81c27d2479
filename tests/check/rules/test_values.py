"""Sizes over the depth of a model."""

from __future__ import annotations

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
