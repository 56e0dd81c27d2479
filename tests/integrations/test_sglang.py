"""SGLang: ``seed_all`` first, one start, stop and step around each forward, and no try/finally."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.integrations.serving import answer, decoder, prompt

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("random_again")]


class ModelRunner:
    def __init__(self, config_path: str, gpu_id: int, dp_size: int) -> None:
        from msprobe.pytorch import PrecisionDebugger, seed_all

        seed_all(mode=True)
        self.model, self.gpu_id, self.dp_size = decoder(), gpu_id, dp_size
        self.msprobe_debugger = PrecisionDebugger(config_path=config_path)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        self.msprobe_debugger.start(model=self.model, rank_id=self.gpu_id if self.dp_size > 1 else None)
        output = answer(self.model, text)
        self.msprobe_debugger.stop()
        self.msprobe_debugger.step()
        return output


def test_data_parallel_workers_are_told_apart_by_rank_id(bench: Any) -> None:
    runner = ModelRunner(bench.config(), gpu_id=3, dp_size=2)
    assert torch.are_deterministic_algorithms_enabled()
    runner.forward(prompt())
    runner.forward(prompt(1))
    assert bench.folders() == ["step0/rank3", "step1/rank3"]


def test_an_exception_leaves_the_records_and_no_hooks(bench: Any) -> None:
    runner = ModelRunner(bench.config(), gpu_id=0, dp_size=1)
    with pytest.raises(IndexError):
        runner.forward(prompt() + 1000)
    before = torch.nn.Module.__call__
    runner.forward(prompt())
    assert torch.nn.Module.__call__ is not before  # the next call stopped what the failed one had left running
    entries = bench.entries("step0/proc")
    assert "IndexError" in entries["Module.embed.tokens.Embedding.forward.0"]["error"]
    assert "output" in entries["Module.embed.tokens.Embedding.forward.1"]
