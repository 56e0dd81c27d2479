"""Where the data that a model is given differ, its outermost module is named, at the line that calls it."""

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


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(tokens)))


def record(folder: Path, data: str, nested: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(Net()) if nested else Net()
    tokens = torch.arange(12).view(3, 4)
    tokens = {"plain": tokens, "shifted": tokens + 1, "permuted": tokens[:, [1, 0, 2, 3]]}[data]
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        (model(tokens) * torch.arange(4.0)[:, None]).square().mean().backward()  # given
    forget()


@pytest.mark.parametrize("data", ["shifted", "permuted"])
@pytest.mark.parametrize(("nested", "module"), [(True, "0.Net"), (False, "embedding.Embedding")])
def test_the_first_module_is_named(recordings: Recordings, data: str, nested: bool, module: str) -> None:
    result = msprobe.compare(recordings(record, data, nested), recordings(record, "plain", nested))
    found = result.summary.first_divergence
    assert found is not None and found.module == module, found
    assert found.source.endswith("# given" if nested else "self.head(torch.tanh(self.embedding(tokens)))")
