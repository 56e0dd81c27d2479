"""A model in training and the same one in an inference engine: fused layers, no backward, tokens in one list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import msprobe
from msprobe.compare.comparison import forward_alone
from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger
from tests.compare.alignment.sides import dump
from tests.compare.dumps import call, gradient, tensor
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
WIDTH, WORDS = 8, 20
CHECK: dict[str, Any] = {"consistent_check": True, "backend": "fsdp"}


class Attention(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        names = ["qkv_proj"] if fused else ["q_proj", "k_proj", "v_proj"]
        self.inner = nn.ModuleDict({name: nn.Linear(WIDTH, 3 * WIDTH // len(names)) for name in names})
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.cat([layer(x) for layer in self.inner.values()], -1).split(WIDTH, -1)
        return self.o_proj(F.softmax(q @ k.transpose(-1, -2), -1) @ v)


class Model(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Attention(fused) for _ in range(2)])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def _pair() -> tuple[Model, Model]:
    """The split and the fused model with the same weights."""
    torch.manual_seed(0)
    split, fused = Model(fused=False), Model(fused=True)
    weights = split.state_dict()
    for name in fused.state_dict():
        if "qkv_proj" in name:
            parts = [weights.pop(name.replace("qkv", part)) for part in "qkv"]
            weights[name] = torch.cat(parts)
    fused.load_state_dict(weights)
    return split, fused


def record_training(folder: Path, task: str) -> None:
    split, _ = _pair()
    tokens = torch.arange(6) % WORDS
    with _collecting(folder, split, task):
        F.cross_entropy(split(tokens[None]).view(-1, WORDS), tokens).backward()


def record_engine(folder: Path, task: str, layer: str = "") -> None:
    """An engine knows no batches, only tokens. One weight of ``layer`` is another."""
    _, fused = _pair()
    if layer:
        with torch.no_grad():
            fused.get_submodule(layer).weight[3, 1] += 0.5
    with _collecting(folder, fused, task), torch.no_grad():
        fused(torch.arange(6) % WORDS)


@contextmanager
def _collecting(folder: Path, model: Model, task: str) -> Iterator[None]:
    forget()
    with PrecisionDebugger(task=task, dump_path=str(folder), level="mix").collect(model):
        yield
    forget()


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_the_same_weights_are_the_same(recordings: Recordings, task: str) -> None:
    train, engine = recordings(record_training, task), recordings(record_engine, task)
    assert msprobe.compare(train, engine, layer_mapping=True).verdict == "diverged"
    result = msprobe.compare(train, engine, **CHECK)
    assert result.verdict == "same", result.summary
    paired = {row.golden: row.target for row in result.rows()}
    assert "q_proj" in paired["Module.layers.1.inner.qkv_proj.Linear.forward.0.parameters.weight"]


@pytest.mark.parametrize("backend", ["fsdp", "megatron"])
@pytest.mark.parametrize(
    "layer", ["embed", "layers.0.inner.qkv_proj", "layers.1.inner.qkv_proj", "layers.1.o_proj", "head"]
)
def test_another_weight_is_named(recordings: Recordings, layer: str, backend: str) -> None:
    train, engine = recordings(record_training, "statistics"), recordings(record_engine, "statistics", layer)
    sides = (train, engine) if backend == "fsdp" else (engine, train)
    found = msprobe.compare(*sides, consistent_check=True, backend=backend).summary.first_divergence
    assert found is not None and layer in (found.golden if backend == "fsdp" else found.target or ""), found


def test_forward_calls_with_shapes_without_ones() -> None:
    nested = {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [1, 3]}
    data = {
        "Torch.cat.0.forward": call([[nested, tensor(shape=(1, 2, 1))], 3], [tensor(shape=())]),
        "Torch.cat.0.backward": gradient([tensor()], [tensor()]),
        "Module.m.M.parameters_grad.0": {"weight": [tensor()]},
        "Torch.cat.1.forward": {"is_recompute": True, **call([tensor()], [tensor()])},
    }
    kept = forward_alone(dump(data)).data
    assert list(kept) == ["Torch.cat.0.forward"]
    (inner, outer), number = kept["Torch.cat.0.forward"]["input_args"]
    assert (inner["shape"], outer["shape"], number) == ([3], [2], 3)
    assert nested["shape"] == [1, 3]


@pytest.mark.parametrize(
    "given", [{"consistent_check": True}, {"backend": "fsdp"}, {**CHECK, "backend": "ddp"}], ids=str
)
def test_half_a_question_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(MsprobeException, match="consistent_check"):
        msprobe.compare(tmp_path, tmp_path, **given)
