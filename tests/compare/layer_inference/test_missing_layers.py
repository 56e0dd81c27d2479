"""Two programs: what only one of them calls is other code where it is a function, and missing where it is a layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import msprobe
from tests.compare.layer_inference.conftest import Record

pytestmark = pytest.mark.torch


class Net(nn.Module):
    """Two layers and a head beside them; ``how`` says what is written in another way."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how = how
        self.embed, self.down = nn.Embedding(23, 16), nn.Linear(16, 23, bias=how != "no bias")
        self.extra = nn.Sequential() if how == "no head" else nn.Sequential(nn.Linear(16, 4), nn.LayerNorm(4))
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        if self.how == "function":
            x = torch.relu(x)
        elif self.how != "no activation":
            x = self.act(x)
        if self.how == "no gradient":
            with torch.no_grad():
                beside = self.extra(x)
        else:
            beside = self.extra(x)
        return self.down(x) * (1.0 + 0.1 * beside[..., :1])


@pytest.fixture
def compared(record: Record, tmp_path: Path) -> Callable[..., Any]:
    """``compared(target, golden)``: two ways of writing the model, with equal weights, compared by inference."""

    def compare(target: str, golden: str) -> Any:
        nets = Net(target), Net(golden)
        both = nets[0].state_dict().keys() & nets[1].state_dict().keys()
        with torch.no_grad():
            for net in nets:
                if net.down.bias is not None:
                    net.down.bias.zero_()
        nets[0].load_state_dict({name: nets[1].state_dict()[name] for name in both}, strict=False)
        record(nets[0], "target")
        record(nets[1], "golden")
        return msprobe.compare(tmp_path / "target", tmp_path / "golden", layer_mapping=True)

    return compare


@pytest.mark.parametrize("turned", [False, True], ids=["lost_in_target", "lost_in_golden"])
def test_a_lost_branch_is_a_divergence(compared: Callable[..., Any], turned: bool) -> None:
    sides = ("", "no head") if turned else ("no head", "")
    result = compared(*sides)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    assert found.kind == ("missing_in_golden" if turned else "missing_in_target")
    assert found.module is not None and found.module.startswith("extra")


@pytest.mark.parametrize("sides", [("function", ""), ("", "function")], ids=["in_target", "in_golden"])
def test_an_activation_may_be_a_function(compared: Callable[..., Any], sides: tuple[str, str]) -> None:
    result = compared(*sides)
    assert result.verdict == "same", result.summary
    assert result.summary.counts.target_only > 0 and result.summary.counts.golden_only > 0


def test_an_activation_that_nothing_stands_for_is_missing(compared: Callable[..., Any]) -> None:
    found = compared("no activation", "").summary.first_divergence
    assert found is not None and found.kind == "missing_in_target"
    assert found.golden == "Module.act.ReLU.forward.0"


@pytest.mark.parametrize(
    ("sides", "kind"),
    [(("no bias", ""), "missing_in_target"), (("", "no bias"), "missing_in_golden")],
    ids=["in_target", "in_golden"],
)
def test_a_parameter_of_one_side_is_missing_on_the_other(
    compared: Callable[..., Any], sides: tuple[str, str], kind: str
) -> None:
    found = compared(*sides).summary.first_divergence
    assert found is not None
    assert (found.kind, found.slot, found.module) == (kind, "parameters.bias", "down.Linear")


def test_a_gradient_of_one_side_is_missing_on_the_other(compared: Callable[..., Any]) -> None:
    found = compared("no gradient", "").summary.first_divergence
    assert found is not None and found.kind == "missing_in_target"
    assert found.module is not None and found.module.startswith("extra")
