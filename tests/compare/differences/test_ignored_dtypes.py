"""Two precisions: the coarser dtype judges, with statistics and with whole tensors, whether the user says so or not."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
PAIRS = [("bfloat16", "float32"), ("float32", "bfloat16"), ("float16", "float32")]


def record(folder: Path, dtype: str, task: str, fault: str = "") -> None:
    """One step of an embedding and an encoder layer; ``weight`` makes one of its weights 1.5 times as large, ``call``
    leaves out an activation."""
    forget()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 16), layer, torch.nn.Linear(16, 50))
    model.to(getattr(torch, dtype))
    if fault == "weight":
        with torch.no_grad():
            layer.linear1.weight.mul_(1.5)
    if fault == "call":
        layer.activation = lambda x: x
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": task})
    with debugger.collect(model=model):
        loss = model(torch.arange(24).view(4, 6)).float().square().mean()
        loss.backward()
    forget()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(("target", "golden"), PAIRS)
def test_the_same_program_is_the_same(recordings: Recordings, target: str, golden: str, task: str) -> None:
    pair = recordings(record, target, task), recordings(record, golden, task)
    for options in ({}, {"ignore_dtype": True}):
        result = msprobe.compare(*pair, **options)
        assert result.verdict == "same", result.summary.first_divergence
        assert (
            f"two precisions (torch.{target} in the target, torch.{golden} in the golden run)" in result.summary.reason
        )


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(("target", "golden"), PAIRS)
@pytest.mark.parametrize(("fault", "place"), [("weight", "linear1"), ("call", "1.TransformerEncoderLayer")])
def test_a_fault_is_named(recordings: Recordings, target: str, golden: str, task: str, fault: str, place: str) -> None:
    pair = recordings(record, target, task, fault), recordings(record, golden, task)
    found = msprobe.compare(*pair).summary.first_divergence
    assert found is not None and place in str(found.module), found
