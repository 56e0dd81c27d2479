"""Recomputation adds marked forward calls and nothing else, in every model, dtype and kind of checkpointing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import msprobe
from msprobe.adapters.pytorch import runtime
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

KINDS = ("plain", "restored", "reentrant")
DTYPES = (torch.float32, torch.float64, torch.bfloat16)


class Conversions(nn.Module):
    """Conversions that do nothing, at the beginning, in between and at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(x.dtype).contiguous()
        hidden = F.gelu(self.up(x).to(x.dtype))
        return (x + self.down(hidden)).to(x.dtype)


class Upcast(nn.Module):
    """A norm in float32, as large models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.linear = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = x.to(torch.float32)
        whole = whole * torch.rsqrt(whole.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x + self.linear(self.weight * whole.to(x.dtype))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(4), nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = torch.softmax((q @ k.transpose(-2, -1)).float(), dim=-1).type_as(q)
        return x + torch.matmul(weights, v)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(x)
        hidden += 0.5
        hidden = self.act(hidden)
        return x + hidden.to(x.dtype)


MODELS = (Conversions, Upcast, Attention, InPlace)


class Net(nn.Module):
    def __init__(self, block: Callable[[], nn.Module], kind: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.blocks = nn.ModuleList([block() for _ in range(2)])
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for block in self.blocks:
            x = block(x) if self.kind == "plain" else checkpoint(block, x, use_reentrant=self.kind == "reentrant")
        return x.square().mean()


def record(folder: Path, block: Callable[[], nn.Module], dtype: torch.dtype, kind: str, level: str) -> dict[str, Any]:
    forget()
    net = Net(block, kind).to(dtype)
    probe = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics", "risk_level": "ALL"})
    torch.manual_seed(1)
    x = torch.randn(2, 3, 4, dtype=dtype, requires_grad=True)
    probe.start(model=net)
    net(x).backward()
    probe.stop()
    probe.step()
    (path,) = folder.glob("step0/*/dump.json")
    data: dict[str, Any] = json.loads(path.read_text())["data"]
    return data


def unmarked(data: dict[str, Any]) -> Counter[str]:
    """Return how many entries without the mark there are, by name without number."""
    names = [name for name, entry in data.items() if "is_recompute" not in entry]
    return Counter(".".join(part for part in name.split(".") if not part.isdigit()) for name in names)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", MODELS)
def test_only_marked_records_are_added(
    tmp_path: Path, block: Callable[[], nn.Module], dtype: torch.dtype, level: str
) -> None:
    data = {kind: record(tmp_path / kind, block, dtype, kind, level) for kind in KINDS}
    marked = {kind: [name for name in data[kind] if "is_recompute" in data[kind][name]] for kind in KINDS}
    assert not marked["plain"]
    assert marked["restored"]
    assert marked["reentrant"]
    assert unmarked(data["restored"]) == unmarked(data["reentrant"]) == unmarked(data["plain"])
    assert data["restored"].keys() - set(marked["restored"]) == data["plain"].keys()
    for target, golden in itertools.permutations(KINDS, 2):
        result = msprobe.compare(tmp_path / target, tmp_path / golden)
        assert (result.verdict, result.summary.first_divergence) == ("same", None)


def gradients(folder: Path, tie: Callable[[nn.ModuleList], None], kind: str, micro_batches: int) -> dict[str, Any]:
    """Return what dump.json says of the gradients of parameters, by entry and parameter."""
    forget()
    net = Net(Attention, kind).double()
    tie(net.blocks)
    probe = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    torch.manual_seed(1)
    probe.start(model=net)
    for _ in range(micro_batches):
        net(torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)).backward()
    probe.stop()
    probe.step()
    (path,) = folder.glob("step0/*/dump.json")
    entries = json.loads(path.read_text())["data"].items()
    keys = ("Max", "Min", "Mean", "Norm")
    return {
        f"{name}.{key}": [node[part] for part in keys]
        for name, entry in entries
        if "parameters_grad" in name
        for key, (node,) in entry.items()
        if isinstance(node, dict)
    }


def _share_layer(blocks: nn.ModuleList) -> None:
    blocks[1].qkv = blocks[0].qkv  # type: ignore[union-attr]


def _tie_weight(blocks: nn.ModuleList) -> None:
    blocks[1].qkv.weight = blocks[0].qkv.weight  # type: ignore[union-attr]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("tie", [_share_layer, _tie_weight, lambda blocks: None], ids=["layer", "weight", "nothing"])
def test_a_shared_parameter_has_the_gradient_of_the_run_without_checkpointing(
    tmp_path: Path, tie: Callable[[nn.ModuleList], None], micro_batches: int
) -> None:
    plain = gradients(tmp_path / "plain", tie, "plain", micro_batches)
    assert plain
    for kind in KINDS[1:]:
        repeated = gradients(tmp_path / kind, tie, kind, micro_batches)
        assert repeated.keys() == plain.keys()
        for name, values in plain.items():
            assert repeated[name] == pytest.approx(values, rel=1e-9), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_pytorch_that_does_not_tell_its_hooks_gives_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    told = record(tmp_path / "told", Conversions, torch.float32, kind, "mix")
    monkeypatch.setattr(runtime, "_saved_tensor_hooks", runtime._hooks_by_frames)
    assert record(tmp_path / "by_frames", Conversions, torch.float32, kind, "mix") == told
    assert any("is_recompute" in entry for entry in told.values()) == (kind != "plain")
