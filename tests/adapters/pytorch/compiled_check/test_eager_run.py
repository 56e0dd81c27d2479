"""A call run once more on copies: the program's gradients, running means and random numbers stay as they are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from msprobe.adapters.pytorch.compiled_check.eager_run import EagerCall, gradients  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_copy_computes_the_same_and_changes_nothing() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    data = torch.randn(8, 4, requires_grad=True)
    call = EagerCall.of(module, (data,), {})
    result = module(data)
    mean, random = module[1].running_mean.clone(), torch.get_rng_state()
    again = call.run()
    assert torch.equal(again, result)
    assert torch.equal(module[1].running_mean, mean)
    assert torch.equal(torch.get_rng_state(), random)
    given = torch.ones_like(result)
    inputs, parameters = gradients(call, [again], [given])
    assert all(one.grad is None for one in module.parameters())
    result.backward(given)
    assert torch.equal(inputs[0], data.grad)
    assert all(torch.equal(a, b.grad) for a, b in zip(parameters, module.parameters(), strict=True))


def test_float64_is_closer_to_the_truth() -> None:
    module = nn.Linear(64, 1)
    data = torch.randn(3, 64)
    call = EagerCall.of(module, (data,), {})
    wide = call.in_float64().run()
    assert wide.dtype is torch.float64
    assert torch.allclose(wide.float(), call.run(), atol=1e-5)
