"""Layers of real models, right by construction, in three dtypes: cancelled gradients, composites, long sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from msprobe.adapters.pytorch.replay.live_functions import TorchLiveFunctions
from msprobe.numerics.kinds import Level
from msprobe.replay.judged_call import judge_call

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
LIVE = TorchLiveFunctions()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def worst(function: Callable[..., Any], api: str, args: tuple[Any, ...], gradient: Any = None, **kwargs: Any) -> Level:
    """Return the level of the worst result or gradient of a call; ``gradient`` is that of its only result."""
    result = function(*args, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    torch.manual_seed(5)
    arriving = [torch.randn_like(each) for each in results if each is not None and each.requires_grad]
    given = [LIVE.held(each) for each in (arriving if gradient is None else [gradient(results[0])])]
    call = replace(LIVE.prepare("Functional", api, args, kwargs), gradients=given)
    answer = judge_call(call, LIVE.replayer(function), "cpu")
    assert answer.backward
    return max(value.conditioned.level for value in (*answer.forward, *answer.backward))


@pytest.mark.parametrize("width", [96, 256, 320])
@pytest.mark.parametrize("loss", ["sum", "mean of squares"])
def test_gradients_of_a_norm_that_cancel(loss: str, width: int) -> None:
    torch.manual_seed(width)
    x, weight = torch.randn(4, 32, width).requires_grad_(), torch.ones(width).requires_grad_()

    def gradient(y: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(y) if loss == "sum" else (2 * y / y.numel()).detach()

    assert worst(F.layer_norm, "layer_norm", (x, (width,), weight), gradient) < Level.ERROR


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_layers(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](48, 48, 2).to(dtype)
    x, state = torch.randn(24, 4, 48).to(dtype).requires_grad_(), torch.zeros(2, 4, 48).to(dtype)
    start = (state, state) if kind == "lstm" else state
    args = (x, start, list(layer._flat_weights), True, 2, 0.0, True, False, False)
    assert worst(getattr(torch._VF, kind), kind, args) < Level.ERROR


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 4, 64, 32).to(dtype).requires_grad_()
    attended = worst(F.scaled_dot_product_attention, "scaled_dot_product_attention", (query, query, query))
    assert attended < Level.ERROR
    layer, x = torch.nn.MultiheadAttention(128, 4).to(dtype), torch.randn(16, 2, 128).to(dtype).requires_grad_()
    args = (x, x, x, 128, 4, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0)
    heads = worst(
        F.multi_head_attention_forward,
        "multi_head_attention_forward",
        (*args, layer.out_proj.weight, layer.out_proj.bias),
        training=False,
    )
    assert heads < Level.ERROR


FORMULAS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": lambda x: x * 0.5 * (1.0 + _rounded(torch.erf(x * 0.5**0.5))),
    "tanhshrink": lambda x: x - _rounded(torch.tanh(x)),
}
"""Functions as libraries compute them, with an ``erf`` or ``tanh`` that is off by 3 units in the last place."""
WITHIN, WRONG = 3.0 * 2.0**-24, 1e-4
_error = WITHIN


def _rounded(values: torch.Tensor) -> torch.Tensor:
    signs = torch.sign(torch.sin(torch.arange(values.numel()) * 7.0)).reshape(values.shape)
    return values * (1.0 + _error * signs) if values.dtype is torch.float32 else values


@pytest.mark.parametrize("error", [WITHIN, WRONG])
@pytest.mark.parametrize("api", FORMULAS)
def test_terms_that_cancel_inside_a_function(api: str, error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._error", error)
    x = torch.linspace(-7.0, 7.0, 4001).requires_grad_()
    level = worst(FORMULAS[api], api, (x,))
    assert (level == Level.PASS) == (error == WITHIN)


@pytest.mark.parametrize("api", ["gelu", "tanhshrink", "mish", "silu", "softplus", "logsigmoid", "selu"])
def test_kernels_of_this_machine_far_from_zero(api: str) -> None:
    x = torch.linspace(-7.0, 7.0, 4001).requires_grad_()
    assert worst(getattr(F, api), api, (x,)) == Level.PASS


def test_kernel_of_the_other_formula_of_gelu() -> None:
    x = torch.linspace(-7.0, 7.0, 4001).requires_grad_()
    assert worst(F.gelu, "gelu", (x,), approximate="tanh") == Level.PASS
