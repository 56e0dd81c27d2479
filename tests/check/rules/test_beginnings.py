"""How weights of equal layers begin."""

from __future__ import annotations

import pytest

from msprobe.check.rules.beginnings import unlike_siblings
from tests.check.made_facts import facts, parameter, run_of


@pytest.mark.parametrize(("odd", "told"), [(1.3, []), (0.001, ["layers.2.fc.weight"]), (0.0, ["layers.2.fc.weight"])])
def test_a_weight_far_from_those_of_the_other_layers_is_told(odd: float, told: list[str]) -> None:
    norms = [1.0, 1.1, odd, 0.9, 1.2]
    begin = {f"layers.{n}.fc.weight": parameter(norm, norm) for n, norm in enumerate(norms)}
    assert [one.parameter for one in unlike_siblings(run_of(facts(parameters=begin)))] == told
