"""Arguments of running calls are copied, and their functions run again (MindSpore)."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, ops

from msprobe.adapters.mindspore.replay.live_functions import MindSporeLiveFunctions
from msprobe.core.backend.replaying import CannotReplayError, Constant

pytestmark = pytest.mark.mindspore
LIVE = MindSporeLiveFunctions()


def prepare(*args: Any, **kwargs: Any) -> Any:
    return LIVE.prepare("Functional", "f", args, kwargs)


def test_tensors_are_copies() -> None:
    x = Tensor(np.ones(3, np.float32))
    call = prepare([x], scale=x)
    x.asnumpy()
    x[0] = 5.0
    assert [each.values.tolist() for each in call.tensors()] == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (mindspore.float16, Constant("dtype", "float16")),
        (slice(1, None, 2), Constant("slice", (1, None, 2))),
        (Ellipsis, Constant("ellipsis")),
        ("mean", Constant("plain", "mean")),
    ],
)
def test_constants(value: Any, constant: Constant) -> None:
    assert prepare(value).args == [constant]


@pytest.mark.parametrize("value", [object(), len])
def test_what_the_program_owns_is_given_to_no_other_call(value: Any) -> None:
    with pytest.raises(CannotReplayError, match="cannot be given again"):
        prepare(value)


def test_random_functions_are_not_run_again() -> None:
    with pytest.raises(CannotReplayError, match="random numbers"):
        LIVE.prepare("Functional", "dropout", (Tensor(np.ones(3, np.float32)),), {})


def test_a_function_runs_again() -> None:
    call = prepare(Tensor(np.zeros(3, np.float32)))
    assert LIVE.replayer(ops.exp).run(call, "cpu").outputs[0].values.tolist() == [1.0] * 3


def test_a_better_result_in_the_dtype_of_the_function() -> None:
    x = Tensor(np.full(4, 1.01), mindspore.float16)
    done, better = LIVE.improved(ops.exp, (x,), {}, False)
    assert done and better.dtype == mindspore.float16
    assert LIVE.improved(ops.exp, (Tensor(np.ones(2, np.float32)),), {}, False) == (False, None)
