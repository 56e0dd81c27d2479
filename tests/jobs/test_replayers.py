"""The name of a framework leads to what runs its calls again."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe.core.backend.replaying import HeldTensor, PreparedCall
from msprobe.core.errors import InterfaceError
from msprobe.jobs.replayers import make_replayer


@pytest.mark.torch
def test_calls_of_pytorch_run_again() -> None:
    pytest.importorskip("torch")
    call = PreparedCall("Torch", "abs", [HeldTensor(np.array([-2.0, 3.0]), "float64")], {})
    (result,) = make_replayer("pytorch").run(call, "cpu").outputs
    assert result.values.tolist() == [2.0, 3.0]


def test_an_unknown_framework_is_one_line() -> None:
    with pytest.raises(InterfaceError, match="'jax' cannot be run again"):
        make_replayer("jax")
