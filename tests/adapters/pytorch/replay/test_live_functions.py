"""Arguments of running calls are copied, and their functions run again without touching what the program owns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from msprobe.adapters.pytorch.replay.live_functions import TorchLiveFunctions
from msprobe.core.backend.replaying import CannotReplayError, Constant, HeldTensor

pytestmark = pytest.mark.torch
LIVE = TorchLiveFunctions()


def prepare(*args: Any, **kwargs: Any) -> Any:
    return LIVE.prepare("Torch", "f", args, kwargs)


def test_tensors_are_copies() -> None:
    x = torch.ones(3)
    call = prepare([x], scale=x)
    x.zero_()
    assert [each.values.tolist() for each in call.tensors()] == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (torch.float16, Constant("dtype", "float16")),
        (torch.Size((2, 3)), Constant("size", (2, 3))),
        (slice(1, None, 2), Constant("slice", (1, None, 2))),
        (Ellipsis, Constant("ellipsis")),
        (torch.device("cpu"), Constant("device", "cpu")),
        ("mean", Constant("plain", "mean")),
    ],
)
def test_constants(value: Any, constant: Constant) -> None:
    assert prepare(value).args == [constant]


@pytest.mark.parametrize("value", [torch.Generator(), object(), torch.nn.Linear(1, 1), len])
def test_what_the_program_owns_is_given_to_no_other_call(value: Any) -> None:
    with pytest.raises(CannotReplayError, match="cannot be given again"):
        prepare(value)


def test_a_call_with_an_index_of_several_dimensions_runs_again() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    call = LIVE.prepare("Tensor", "__getitem__", (x, (slice(0, 2), 1)), {})
    assert LIVE.replayer(torch.Tensor.__getitem__).run(call, "cpu").outputs[0].values.tolist() == [1.0, 5.0]


def test_the_order_in_memory_is_kept() -> None:
    x = torch.rand(4, 5).t()
    assert LIVE.arguments(prepare(x))[0][0].stride() == x.stride()


def test_random_numbers_are_drawn_again_and_are_still_there() -> None:
    x = torch.ones(64)
    torch.manual_seed(1)
    call, state = LIVE.prepare("Functional", "dropout", (x, 0.5), {}), LIVE.program_state()
    assert not LIVE.has_drawn(state)
    own = F.dropout(x, 0.5)
    assert LIVE.has_drawn(state)
    after = torch.get_rng_state()
    from dataclasses import replace

    again = LIVE.replayer(F.dropout).run(replace(call, program_state=state), "cpu").outputs[0]
    assert np.array_equal(again.values, own.numpy())
    assert torch.equal(torch.get_rng_state(), after)


def test_a_better_result_in_the_dtype_of_the_function() -> None:
    x = torch.full((4,), 1.01, dtype=torch.bfloat16, requires_grad=True)
    done, better = LIVE.improved(torch.exp, (x,), {}, False)
    assert done and better.dtype == torch.bfloat16
    better.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    "function",
    [lambda x: x.add_(1), lambda x: x.view(-1), lambda x: x[:2], lambda x: F.relu(x, inplace=True)],
)
def test_functions_that_write_or_view_are_left_alone(function: Any) -> None:
    x = torch.ones(4, dtype=torch.bfloat16)
    assert LIVE.improved(function, (x,), {}, False) == (False, None)
    assert x.tolist() == [1.0] * 4


def test_float32_has_no_better_result_on_its_device() -> None:
    assert LIVE.improved(torch.exp, (torch.ones(2),), {}, False) == (False, None)


def test_an_autocast_is_noted() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert prepare(torch.ones(2)).autocast == "bfloat16"
    assert prepare(torch.ones(2)).autocast == ""
    assert isinstance(LIVE.held(torch.ones(2)), HeldTensor)
