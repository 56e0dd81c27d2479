"""ms-swift and users of Megatron: construction inside every step, and models in several chunks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.zoo.model import POSITIONS, healthy

pytestmark = pytest.mark.torch


def test_ms_swift_constructs_it_in_every_step(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    training = healthy()
    optimizer = training.optimizer(training.model.parameters())
    for step in range(2):
        debugger = PrecisionDebugger(dump_path=str(bench.dump), level="mix", model=training.model)
        debugger.start()
        try:
            text = training.text(step)
            training.loss(training.model(text[:, :POSITIONS]), text).backward()
            optimizer.step()
        finally:
            debugger.stop()
            debugger.step()
    assert bench.folders() == ["step0/proc", "step1/proc"]
    names = bench.entries("step1/proc")
    assert {"Module.head.Linear.forward.0", "Module.head.Linear.backward.0", "Functional.linear.0.forward"} <= set(
        names
    )


def test_the_older_order_of_arguments(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    debugger = PrecisionDebugger(None, "statistics", str(bench.dump), "L0", model, ["0-1"])
    debugger.start()
    model(torch.ones(1, 2))
    debugger.stop()
    assert debugger.config.step == [0, 1]
    assert bench.modules("step0/proc") == ["0.Linear.forward.0"]


def test_torchtitan_starts_with_its_model_parts(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger, seed_all

    parts = [torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.nn.Sequential(torch.nn.ReLU())]
    try:
        seed_all(seed=7, mode=True, rm_dropout=False)
        debugger = PrecisionDebugger(config_path=bench.config())
        debugger.start(model=parts)
        parts[1](parts[0](torch.ones(2, 4)))
        debugger.stop()
        debugger.step()
    finally:
        torch.use_deterministic_algorithms(False)
    assert bench.modules("step0/proc") == ["0.0.Linear.forward.0", "1.0.ReLU.forward.0"]


def test_megatron_pipeline_of_chunks(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(0)
    chunks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.nn.Sequential(torch.nn.Linear(4, 1))]
    optimizer = torch.optim.SGD([p for chunk in chunks for p in chunk.parameters()], lr=0.1)
    debugger = PrecisionDebugger(bench.config())
    for step in range(2):
        debugger.start(model=chunks)
        for micro in range(2):
            chunks[1](chunks[0](torch.full((2, 4), float(step + micro + 1)))).sum().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    entries = bench.entries("step1/proc")
    assert {f"Module.{chunk}.0.Linear.forward.{micro}" for chunk in (0, 1) for micro in (0, 1)} <= set(entries)
    assert "Module.0.0.Linear.parameters_grad.0" in entries
