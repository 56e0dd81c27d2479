"""Trainings under the monitor, run both by msprobe and by the published tool: ``python programs.py CASE FOLDER``.

It imports nothing of these tests, because the published tool runs it too. Parameters and data are sines, so that they
need no generator.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn


class Net(nn.Module):
    """Linear layers with a normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.block(self.norm(torch.relu(self.fc1(x)))))


class Images(nn.Module):
    """Convolutions with batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.act = nn.GELU()
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.bn(self.conv(x))).mean((2, 3)))


class Tokens(nn.Module):
    """An embedding, attention in a module of its own, a router."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.qkv = nn.Linear(8, 24)
        self.core_attention = Attention()
        self.router = Router()
        self.out = nn.Linear(8, 11)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length, batch = ids.shape
        query, key, value = self.qkv(self.embedding(ids)).view(length, batch, 3, 2, 4).unbind(2)
        hidden = self.core_attention(query, key, value).reshape(length, batch, 8)
        return self.out(hidden) * self.router(hidden).softmax(-1).max(-1, keepdim=True)[0]


class Attention(nn.Module):
    """Causal attention over [sequence, batch, head, channel]."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("sbhd,tbhd->bhst", query, key) / query.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return torch.einsum("bhst,tbhd->sbhd", scores.masked_fill(future, -1e9).softmax(-1), value)


class Router(nn.Module):
    """Four experts for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t()


def filled(model: nn.Module) -> nn.Module:
    """Give the parameters fixed values."""
    with torch.no_grad():
        for number, one in enumerate(model.parameters()):
            waves = torch.arange(one.numel(), dtype=torch.float64) * (1.7 + 0.3 * number) + number
            one.copy_((0.4 * torch.sin(waves)).reshape(one.shape))
    return model


def data(step: int, *shape: int) -> torch.Tensor:
    """Return the data of a step."""
    count = int(torch.tensor(shape).prod())
    return torch.cos(torch.arange(count, dtype=torch.float64) * 0.9 + 3.1 * step).reshape(shape).float()


def train(
    model: nn.Module,
    loss: Callable[[nn.Module, int], torch.Tensor],
    begin: Callable[[nn.Module, Any], Any],
    steps: int = 4,
    micro_steps: int = 1,
    optimizer: str = "AdamW",
) -> None:
    """Train a model."""
    step_of: Any = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
    monitor = begin(model, step_of)  # the published one loses its hooks when nothing holds it
    for step in range(steps):
        for micro in range(micro_steps):
            loss(model, step * micro_steps + micro).backward()
        step_of.step()
        step_of.zero_grad()
    if hasattr(monitor, "stop"):
        monitor.stop()


def first(config: Path, micro_steps: int = 1) -> Callable[[nn.Module, Any], Any]:
    """Return what begins the first version of the monitor."""
    from msprobe.pytorch import TrainerMon

    def begin(model: nn.Module, optimizer: Any) -> None:
        monitor = TrainerMon(str(config), params_have_main_grad=False)
        monitor.set_monitor(model, optimizer, grad_acc_steps=micro_steps)
        return monitor

    return begin


def second(config: Path, folder: Path) -> Callable[[nn.Module, Any], Any]:
    """Return what begins the second version."""
    from msprobe.core.monitor_v2 import TrainerMonitorV2

    written = folder.parent / f"{folder.name}.json"
    written.write_text(json.dumps({**json.loads(config.read_text()), "output_dir": str(folder)}))

    def begin(model: nn.Module, optimizer: Any) -> None:
        monitor = TrainerMonitorV2(str(written))
        monitor.start(model=model, optimizer=optimizer)
        return monitor

    return begin


def square(model: nn.Module, step: int) -> torch.Tensor:
    return model(data(step, 4, 8)).pow(2).mean()


def with_spike(model: nn.Module, step: int) -> torch.Tensor:
    """Return a loss that is a thousand times larger in step 4."""
    return square(model, 1) * (1000 if step == 4 else 1)


def picture(model: nn.Module, step: int) -> torch.Tensor:
    return nn.functional.cross_entropy(model(data(step, 2, 3, 6, 6)), torch.tensor([1, 3]))


def text(model: nn.Module, step: int) -> torch.Tensor:
    ids = (torch.arange(15).reshape(5, 3) * 7 + step) % 11
    return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def main(case: str, folder: Path) -> None:
    """Run one case; files of the monitor go below ``folder``."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MONITOR_OUTPUT_DIR"] = str(folder)
    config = Path(__file__).parent / "configs" / f"{case}.json"
    model: nn.Module = filled(Net())
    if case == "ranks":
        distributed.init_process_group("gloo")
        rank = distributed.get_rank()
        wrapped = nn.parallel.DistributedDataParallel(model)
        train(wrapped, lambda one, step: square(one, step + 10 * rank), first(config))
        distributed.destroy_process_group()
    elif case == "micro_steps":
        train(model, square, first(config, 3), micro_steps=3)
    elif case == "alerts":
        train(model, with_spike, first(config), steps=6, optimizer="SGD")
    elif case == "images":
        train(filled(Images()), picture, first(config), steps=7, optimizer="Adam")
    elif case == "features":
        train(filled(Tokens()), text, first(config))
    elif case.startswith("second"):
        micro = 2 if case == "second_micro_steps" else 1
        train(model, square, second(config, folder), micro_steps=micro)
    else:
        train(model, square, first(config))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute())
