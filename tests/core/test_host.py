"""What every ``seed_all`` checks, and what it fixes outside its framework."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from msprobe.core.errors import MsprobeException
from msprobe.core.host import check_seed, seed_host


@pytest.mark.parametrize(
    ("seed", "switches", "named"),
    [
        pytest.param(-1, {}, "seed is an integer from 0 to 4294967295, got -1", id="negative"),
        pytest.param(2**32, {}, "got 4294967296", id="too-large"),
        pytest.param(1.0, {}, r"got 1\.0", id="float"),
        pytest.param(True, {}, "got True", id="bool"),
        pytest.param(1, {"mode": 1}, "mode is True or False, got 1", id="switch"),
    ],
)
def test_a_wrong_argument_is_named(seed: Any, switches: dict[str, Any], named: str) -> None:
    with pytest.raises(MsprobeException, match=named):
        check_seed(seed, **switches)


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_every_seed_that_numpy_takes_is_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    check_seed(seed, mode=True)
    draws = []
    for _ in range(2):
        seed_host(seed)
        draws.append((random.random(), np.random.rand()))
    assert draws[0] == draws[1]
    assert os.environ["PYTHONHASHSEED"] == str(seed)
