"""Collecting changes not one bit of a training, and a model copied meanwhile is a model of its own."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe.adapters.pytorch.backend import make_backend
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession

pytestmark = pytest.mark.torch

Example = tuple[nn.Module, torch.Tensor]


def mlp() -> Example:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 3)), torch.randn(5, 6)


def convolution() -> Example:
    layers = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(36, 3)), torch.randn(3, 2, 8, 8)


class Recurrent(nn.Module):
    """Two LSTM layers; their result is a tuple of a tensor and a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> Any:
        out, (hidden, _cell) = self.lstm(x)
        return self.head(out[:, -1] + hidden[-1])


class Attention(nn.Module):
    """Self-attention with a mask and the fused kernel, called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = self.project(x).chunk(3, dim=-1)
        fused = nn.functional.scaled_dot_product_attention(q, key=k, value=v, is_causal=True)
        mixed, _ = self.attention(query=fused, key=fused, value=fused, need_weights=False)
        return mixed.masked_fill(mixed < -10, 0.0)


class InPlace(nn.Module):
    """Operators that overwrite what they are given, views among it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.first(x).mul_(2).add_(1)
        y[:, :2] += 1
        torch.relu_(y.view(-1, 3))
        y = nn.functional.leaky_relu(self.second(y), 0.1, inplace=True)
        return (y + 1).clamp_(max=3)


class Checkpointed(nn.Module):
    """A block that is computed again in the backward pass, with dropout in it."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(6, 6)
        self.block = nn.Sequential(nn.Linear(6, 12), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(12, 6))

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.block, self.first(x), use_reentrant=self.reentrant)


class Shared(nn.Module):
    """One weight in two places, and one module called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.again = nn.Linear(4, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> Any:
        y = self.embed(x.abs().long() % 6)
        for _ in range(3):
            y = self.again(y).tanh()
        return self.head(y)


MODELS: dict[str, Callable[[], Example]] = {
    "mlp": mlp,
    "convolution": convolution,
    "lstm": lambda: (Recurrent(), torch.randn(2, 3, 4)),
    "attention": lambda: (Attention(), torch.randn(2, 5, 8)),
    "in_place": lambda: (InPlace(), torch.randn(4, 6)),
    "checkpoint_reentrant": lambda: (Checkpointed(True), torch.randn(4, 6)),
    "checkpoint": lambda: (Checkpointed(False), torch.randn(4, 6)),
    "shared": lambda: (Shared(), torch.randn(2, 5) * 5),
}


def session_of(path: Path, **config: Any) -> DumpSession:
    return DumpSession(load_config({"dump_path": str(path), "risk_level": "ALL", **config}), make_backend)


def two_steps(name: str, session: DumpSession | None) -> Iterator[tuple[str, bytes]]:
    """Loss, gradients, parameters and buffers after each of two optimizer steps, as bytes."""
    torch.manual_seed(3)
    model, batch = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for step in range(2):
        if session is not None:
            session.start(model)
        optimizer.zero_grad()
        loss = model(batch).float().square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        if session is not None:
            session.stop()
            session.step()
        yield f"{step} loss", loss.detach().numpy().tobytes()
        yield from ((f"{step} gradient {key}", value.numpy().tobytes()) for key, value in gradients.items())
        state = model.state_dict().items()
        yield from ((f"{step} state {key}", value.numpy().tobytes()) for key, value in state)
    yield "random", torch.get_rng_state().numpy().tobytes()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("name", MODELS)
def test_two_steps_are_bit_identical(name: str, level: str, tmp_path: Path) -> None:
    plain = dict(two_steps(name, None))
    session = session_of(tmp_path, level=level)
    try:
        collected = dict(two_steps(name, session))
    finally:
        session.close()
    assert [key for key in plain if collected.get(key) != plain[key]] == []
    assert collected.keys() == plain.keys()
    documents = sorted(tmp_path.glob("step*/*/dump.json"))
    assert len(documents) == 2
    assert all(json.loads(path.read_bytes())["data"] for path in documents)
    assert not list(tmp_path.rglob("dump_error_info.log"))


@pytest.mark.parametrize("name", ["in_place", "attention"])
def test_saving_tensors_and_checksums_changes_nothing(name: str, tmp_path: Path) -> None:
    plain = dict(two_steps(name, None))
    session = session_of(tmp_path, level="mix", task="tensor", tensor={"summary_mode": "md5"})
    try:
        assert dict(two_steps(name, session)) == plain
    finally:
        session.close()
    assert list(tmp_path.rglob("*.pt"))


def copied(model: Any) -> Any:
    return copy.deepcopy(model)


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def saved(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("duplicate", [copied, pickled, saved])
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("idle", [False, True], ids=["running", "stopped"])
def test_a_duplicate_computes_with_its_own_weights(duplicate: Any, level: str, idle: bool, tmp_path: Path) -> None:
    model, batch = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(inplace=True)), torch.randn(5, 6)
    expected = model(batch)
    session = session_of(tmp_path, level=level)
    try:
        session.start(model)
        model(batch).sum().backward()
        if idle:
            session.stop()
        twin = duplicate(model)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        assert torch.equal(twin(batch), torch.zeros(5, 4))
        assert torch.equal(model(batch), expected)
        twin(batch).sum().backward()
        assert {key: type(module) for key, module in twin.named_modules()} == {
            key: type(module) for key, module in model.named_modules()
        }
    finally:
        session.close()
    assert torch.equal(twin(batch), torch.zeros(5, 4))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(batch), expected)
