"""vLLM without a plugin, edited as its users are told to: calls in the model runner, or around an offline engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.integrations.serving import answer, decoder, prompt

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("random_again")]


class ModelRunner:
    """``vllm/v1/worker/gpu_model_runner.py`` with the lines of the guide in it."""

    def __init__(self, config_path: str) -> None:
        from msprobe.pytorch import PrecisionDebugger, seed_all

        seed_all(mode=True)
        self.model = decoder()
        self.debugger = PrecisionDebugger(config_path=config_path)

    def execute_model(self, text: torch.Tensor) -> torch.Tensor:
        self.debugger.start(model=self.model)
        try:
            return answer(self.model, text)
        finally:
            self.debugger.stop()
            self.debugger.step()


def test_an_iteration_that_fails_is_a_step_of_its_own(bench: Any) -> None:
    runner = ModelRunner(bench.config())
    runner.execute_model(prompt())
    with pytest.raises(IndexError):
        runner.execute_model(prompt() + 1000)
    runner.execute_model(prompt())
    assert bench.folders() == ["step0/proc", "step1/proc", "step2/proc"]
    assert "IndexError" in bench.entries("step1/proc")["Module.embed.tokens.Embedding.forward.0"]["error"]
    assert bench.modules("step2/proc") == bench.modules("step0/proc")


def engine() -> Any:
    """An offline engine, down to its model."""
    worker = SimpleNamespace(model_runner=SimpleNamespace(get_model=decoder().eval))
    return SimpleNamespace(llm_engine=SimpleNamespace(model_executor=SimpleNamespace(driver_worker=worker)))


def test_tokens_of_an_offline_engine(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    llm = engine()
    model = llm.llm_engine.model_executor.driver_worker.model_runner.get_model()
    debugger = PrecisionDebugger(config_path=bench.config())
    debugger.start(model=model, token_range=[1, 2])
    for number in range(4):  # prefill, then one token after the other
        answer(model, prompt(number))
    debugger.stop()
    debugger.step()
    heads = [name for name in bench.modules("step0/proc") if name.startswith("head.")]
    assert heads == ["head.Linear.forward.0", "head.Linear.forward.1"]
