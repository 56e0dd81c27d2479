"""Values that the program reads: each once, what nobody reads never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.adapters.bench import Bench

X = torch.tensor([0.5, -2.0, 3.0])
READERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[1].item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "__float__": lambda x: float(x[2]),
    "__repr__": str,
}


def reads(bench: Bench) -> list[Any]:
    header: Any = bench.read().dump
    return list(header.get("reads", []))


@pytest.mark.parametrize("name", READERS)
def test_a_read_is_recorded_once_with_its_place(bench: Bench, name: str) -> None:
    debugger = bench.open("L1")
    debugger.start()
    torch.relu(X)
    result = READERS[name](X)
    debugger.stop()
    (read,) = reads(bench)
    assert read["call"] == name and "test_read_values.py" in read["stack"][0]
    assert read["value"]["Max"] == (result if isinstance(result, float) else 3.0)
    assert read["numbers"] == ([result] if isinstance(result, float) else X.tolist())


@pytest.mark.parametrize("tensor", [torch.zeros(513), torch.tensor([0.5, float("inf")])], ids=["many", "infinite"])
def test_of_many_numbers_and_infinite_ones_only_the_record_is_kept(bench: Bench, tensor: torch.Tensor) -> None:
    debugger = bench.open("L1")
    debugger.start()
    tensor.tolist()
    debugger.stop()
    (read,) = reads(bench)
    assert "numbers" not in read


def test_a_formatted_number_is_read_by_its_item(bench: Bench) -> None:
    debugger = bench.open("L1")
    debugger.start()
    torch.relu(X)
    assert f"{X[0]:.1f}" == "0.5"
    debugger.stop()
    assert [read["call"] for read in reads(bench)] == ["item"]


class Gated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x


def test_whole_numbers_and_what_modules_and_optimizers_read_are_left_out(bench: Bench) -> None:
    model = nn.Sequential(nn.Linear(3, 2), Gated())
    optimizer = torch.optim.Adam(model.parameters())
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(X).sum().backward()
    optimizer.step()
    X.argmax().item()
    (X > 0).tolist()
    debugger.stop()
    assert not reads(bench)


def test_a_step_records_the_first_reads_alone(bench: Bench) -> None:
    debugger = bench.open("L1")
    debugger.start()
    torch.relu(X)
    for number in range(1005):
        torch.tensor(float(number)).item()
    debugger.stop()
    assert [read["value"]["Max"] for read in reads(bench)] == list(range(1000))


def test_reading_is_the_programs_own_again_after_stop(bench: Bench) -> None:
    before = {name: getattr(torch.Tensor, name) for name in READERS}
    debugger = bench.open("L1")
    debugger.start()
    assert torch.Tensor.item is not before["item"]
    debugger.stop()
    assert {name: getattr(torch.Tensor, name) for name in READERS} == before
