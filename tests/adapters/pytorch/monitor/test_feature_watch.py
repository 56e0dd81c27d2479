"""The formulas of the features of modules; tests/golden_monitor has the values of the published monitor."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.monitor.feature_watch import attention, router_logits, router_weight, spectral  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (1, 5), (20, 20)])
def test_spectral_norm_and_its_share(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    matrix = torch.randn(shape)
    largest = torch.linalg.svdvals(matrix)[0].item()
    found = spectral(matrix)
    assert found["kernel_norm"].item() == pytest.approx(largest, rel=2e-2)
    assert found["kernel_norm"].item() <= largest * (1 + 1e-6)
    assert found["sr"].item() == pytest.approx(matrix.norm().item() / found["kernel_norm"].item(), rel=1e-6)


@pytest.mark.parametrize("axes", ["s,b,h,d", "b,s,h,d"])
def test_uniform_attention_has_the_entropy_of_its_rows(axes: str) -> None:
    shape = (4, 2, 3, 8) if axes == "s,b,h,d" else (2, 4, 3, 8)
    found = attention(torch.zeros(shape), torch.ones(shape), axes)
    assert found["entropy"].item() == pytest.approx(sum(math.log(n) for n in range(1, 5)) / 4)
    assert found["softmax_max"].item() == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_experts_that_are_alike_and_tokens_that_are_undecided() -> None:
    assert router_weight(torch.ones(4, 8))["router_weight_similarity"].item() == pytest.approx(1)
    assert router_weight(torch.eye(4))["router_weight_similarity"].item() == pytest.approx(0)
    assert router_logits(torch.zeros(5, 8))["per_token_expert_entropy"].item() == pytest.approx(math.log(8))
