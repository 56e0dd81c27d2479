"""Dumps say which calls move a training on, and the program is the same with and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = pytest.mark.torch


class Speaker(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.fc(x)

    def generate(self, tokens: Any, max_new_tokens: int = 2, **more: Any) -> Any:
        return torch.cat([tokens, tokens[:, :1].repeat(1, max_new_tokens)], 1)


def train(folder: Path | None, **config: Any) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Train three steps; return the gradients, and the documents of the steps."""
    torch.manual_seed(0)
    model = Speaker()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)],
        milestones=[1],
    )
    forget()
    settings = {"task": "statistics", "level": "mix", "dump_path": str(folder), **config}
    debugger = None if folder is None else PrecisionDebugger(settings)
    gradients = []
    for _ in range(3):
        if debugger is not None:
            debugger.start(model=model)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(2, 4)).float().sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        gradients += [parameter.grad.clone() for parameter in model.parameters()]
        optimizer.step()
        schedule.step()
        model.generate(torch.ones(2, 3, dtype=torch.long), max_new_tokens=5)
        if debugger is not None:
            debugger.stop()
            debugger.step()
    forget()
    documents = [] if folder is None else [json.loads(path.read_text()) for path in sorted(folder.rglob("dump.json"))]
    return gradients, documents


@pytest.mark.filterwarnings("ignore")
def test_calls_stand_in_their_order_with_what_they_say(tmp_path: Path) -> None:
    _, documents = train(tmp_path)
    calls = documents[1]["training_calls"]
    kinds = ["zero_grad", "backward", "clip_grad", "optimizer_step", "scheduler_step", "generate"]
    assert [call["call"] for call in calls] == kinds
    by_kind = {call["call"]: call for call in calls}
    assert by_kind["clip_grad"]["limit"] == 0.5
    assert by_kind["clip_grad"]["norm"]["Max"] > 0.5
    assert [item["name"] for item in by_kind["optimizer_step"]["gradients"]] == ["fc.weight", "fc.bias"]
    assert by_kind["optimizer_step"]["no_gradient"] == []
    assert by_kind["scheduler_step"]["class"] == "SequentialLR"
    assert by_kind["scheduler_step"]["rates_before"] != by_kind["scheduler_step"]["rates_after"]
    asked = by_kind["generate"]
    assert (asked["max_new_tokens"], asked["given"], asked["returned"]) == (5, 3, 8)
    assert [each["after"] for each in calls] == sorted(each["after"] for each in calls)
    assert [(item["name"], item["has_gradient"]) for item in documents[1]["model_parameters"]] == [
        ("fc.weight", True), ("fc.bias", True)
    ]  # fmt: skip
    assert documents[1]["data"]["Module.fc.Linear.forward.0"]["autocast"] == "bfloat16"


@pytest.mark.filterwarnings("ignore")
def test_the_program_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    step = torch.optim.lr_scheduler.LRScheduler.step
    alone, _ = train(None)
    observed, _ = train(tmp_path)
    assert all(map(torch.equal, alone, observed))
    assert torch.optim.lr_scheduler.LRScheduler.step is step
    assert Speaker.generate.__name__ == "generate"
    assert not hasattr(Speaker.generate, "__wrapped__")


@pytest.mark.filterwarnings("ignore")
def test_they_can_be_left_out(tmp_path: Path) -> None:
    _, documents = train(tmp_path, training_records=False)
    assert not {"training_calls", "model_parameters"} & documents[0].keys()
