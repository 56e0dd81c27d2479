"""A small training under a monitor, and the rows that its files hold."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.pytorch import TrainerMon

Rows = list[dict[str, str]]


class Net(nn.Module):
    """Linear layers with a normalization, as deep as names need."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.block(self.norm(torch.relu(self.fc1(x)))))


class Recurrent(nn.Module):
    """A module whose parts have several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.l = nn.LSTM(8, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, (state, _) = self.l(self.a(x))
        return self.out(hidden + state.mean())


def train(
    config: Any,
    model: nn.Module | None = None,
    steps: int = 3,
    micro_steps: int = 1,
    each_step: Callable[[int, TrainerMon], None] = lambda step, monitor: None,
) -> TrainerMon:
    """Train a model under ``TrainerMon``; ``each_step`` is called after each step of the optimizer."""
    torch.manual_seed(0)
    model = Net() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = TrainerMon(config, params_have_main_grad=False)
    monitor.set_monitor(model, optimizer, grad_acc_steps=micro_steps)
    for step in range(steps):
        for _ in range(micro_steps):
            model(torch.randn(4, 8) if isinstance(model, Net) else torch.randn(3, 2, 8)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        each_step(step, monitor)
    monitor.stop()
    return monitor


def rows_of(folder: Path, source: str) -> Rows:
    """Return the rows of a source of all runs below a folder, in the order of the steps."""
    paths = sorted(
        folder.glob(f"*-rank*/{source}_[0-9]*-*.csv"), key=lambda path: int(path.stem.rsplit("_")[-1].split("-")[0])
    )
    return [row for path in paths for row in csv.DictReader(path.read_text().splitlines())]


def names_of(folder: Path) -> set[str]:
    """Return the names of the files of the runs below a folder."""
    return {path.name for path in folder.glob("*-rank*/*")}
