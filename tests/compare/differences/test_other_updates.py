"""Two implementations of one optimizer round elsewhere: parameters in 16 bits agree as far as that, and no further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch
ADAM: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-4}


def _train(
    folder: Path, dtype: torch.dtype, level: str = "mix", moved: float = 0.0, again: bool = False, **settings: Any
) -> Path:
    """Three steps; ``moved`` is added to each weight by hand after the first one, ``again`` makes each step twice."""
    forget()
    debugger = PrecisionDebugger({"task": "statistics", "level": level, "dump_path": str(folder)})
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), **{**ADAM, **settings})
    for step in range(3):
        batch = torch.randn(16, 64, generator=torch.Generator().manual_seed(step)).to(dtype)
        with debugger.collect(model):
            model(batch).float().square().mean().backward()
            for _ in range(1 + again):
                optimizer.step()
            optimizer.zero_grad()
        if step == 0 and moved:
            model[0].weight.data += moved
    forget()
    return folder


def _verdict(target: Path, golden: Path) -> str:
    return msprobe.compare(target, golden).verdict


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("level", ["mix", "L0"])
def test_a_fused_optimizer_is_the_same(tmp_path: Path, dtype: torch.dtype, level: str) -> None:
    golden = _train(tmp_path / "golden", dtype, level)
    for other in ({"fused": True}, {"foreach": True}):
        assert _verdict(_train(tmp_path / next(iter(other)), dtype, level, **other), golden) == "same"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "fault",
    [{"lr": 2e-3}, {"weight_decay": 0.5}, {"again": True}, {"moved": 0.02}],
    ids=lambda fault: next(iter(fault)),
)
def test_another_update_is_a_difference(tmp_path: Path, dtype: torch.dtype, fault: dict[str, Any]) -> None:
    golden = _train(tmp_path / "golden", dtype)
    assert _verdict(_train(tmp_path / "target", dtype, fused=True, **fault), golden) == "diverged"
