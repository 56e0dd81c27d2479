"""One rank of a model that makes its loss itself, in a wrapper: ``... .wrapped_job RANK SIZE FOLDER FAULT``.

All ranks hold the same and compute the same. FAULT is one of ``FAULTS``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger

FAULTS = ("order", "argument")


class Model(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.fault = fault

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.layer(x)
        if self.fault == "order":
            labels = torch.roll(labels, 1)
        smoothing = 0.25 if self.fault == "argument" else 0.0
        known = torch.eq(labels, 0)
        losses = F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
        return torch.where(known, losses.detach() * 0.0, losses)


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.module(*args)


def main(rank: int, size: int, folder: Path, fault: str = "") -> None:
    torch.manual_seed(0)
    model = Wrapper(Model(fault))
    x, labels = torch.randn(8, 4), torch.tensor([1, 5, 0, 2, 2, 4, 3, 1])
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    with debugger.collect(model, rank_id=rank):
        model(x, labels).sum().backward()
    assert size


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
