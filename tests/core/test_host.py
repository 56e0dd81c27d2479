"""What every ``seed_all`` checks, and what it fixes outside its framework."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from msprobe.core import host
from msprobe.core.errors import MsprobeException
from msprobe.core.host import check_seed, free_memory, is_url, limited_memory, program_start, require_local, seed_host


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


def test_a_url_is_told_from_a_path() -> None:
    urls = ("s3://a/b", "memory://a", "/a/b", "C:\\a", "a//b", "s3:/a", None)
    assert [is_url(text) for text in urls] == [True, True, *[False] * 5]
    require_local("/a/b", "dump_path")
    with pytest.raises(MsprobeException, match="dump_path s3://a: is a URL; give a path of this machine"):
        require_local("s3://a", "dump_path")


def test_a_process_begins_when_it_was_started_and_not_when_it_asks() -> None:
    begin = time.time()
    program = "import time; time.sleep(0.3); from msprobe.core.host import program_start; print(program_start())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert begin - 0.1 <= float(child.stdout) <= begin + 0.25
    assert program_start() < begin


@pytest.mark.skipif(free_memory() is None, reason="the system does not say how much memory is free")
def test_memory_is_limited_to_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "free_memory", lambda: 256 << 20)
    with limited_memory():
        assert np.ones(32 << 20, np.uint8).all()
        with pytest.raises(MemoryError):
            np.empty(512 << 20, np.uint8)
    assert np.empty(512 << 20, np.uint8).size == 512 << 20
