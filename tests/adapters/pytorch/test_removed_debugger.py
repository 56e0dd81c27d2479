"""``PrecisionDebugger._instance = None``: there is no debugger any more, until one is constructed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

CALLS: dict[str, Callable[[], Any]] = {
    "start": PrecisionDebugger.start,
    "stop": PrecisionDebugger.stop,
    "step": PrecisionDebugger.step,
    "save": lambda: PrecisionDebugger.save(torch.ones(1), "x"),
    "set_init_step": lambda: PrecisionDebugger.set_init_step(1),
    "register_custom_api": lambda: PrecisionDebugger.register_custom_api(math, "hypot"),
    "restore_custom_api": lambda: PrecisionDebugger.restore_custom_api(math, "hypot"),
    "module_dump": lambda: module_dump(nn.ReLU(), "x"),
    "module_dump_end": module_dump_end,
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("started", [False, True], ids=["idle", "running"])
@pytest.mark.parametrize("name", list(CALLS))
def test_every_call_says_that_there_is_none(bench: Any, name: str, started: bool) -> None:
    debugger = bench.open()
    if started:
        debugger.start()
    PrecisionDebugger._instance = None
    with pytest.raises(MsprobeException, match=r"instance is not created: call PrecisionDebugger\(...\)") as caught:
        CALLS[name]()
    assert caught.value.code == 3


def test_a_new_one_closes_what_the_old_one_recorded(bench: Any, tmp_path: Any) -> None:
    original = nn.Module.__call__
    bench.open("mix").start(Mlp())
    F.relu(torch.ones(1))
    PrecisionDebugger._instance = None
    fresh = PrecisionDebugger(dump_path=str(tmp_path / "fresh"), level="L1")
    assert nn.Module.__call__ is original
    assert bench.read().names("relu") == ["Functional.relu.0.forward"]
    fresh.start()
    fresh.stop()
    assert (tmp_path / "fresh" / "step0").is_dir()
