"""One parameter has one name, whichever framework recorded it."""

from __future__ import annotations

import pytest

from msprobe.compare.records.parameter_names import name_among, with_pytorch_parameter


@pytest.mark.parametrize(
    ("place", "common"),
    [
        ("parameters.gamma", "parameters.weight"),
        (".parameters.beta", ".parameters.bias"),
        ("parameters_grad.gamma", "parameters_grad.weight"),
        ("parameters.up", "parameters.up"),
        ("input.gamma", "input.gamma"),
        ("output.0", "output.0"),
    ],
)
def test_only_parameters_are_renamed(place: str, common: str) -> None:
    assert with_pytorch_parameter(place) == common


def test_a_name_is_looked_up_in_both_directions() -> None:
    assert name_among(["beta", "gamma"], "weight") == "gamma"
    assert name_among(["bias", "weight"], "gamma") == "weight"
    assert name_among(["bias", "up"], "weight") is None
