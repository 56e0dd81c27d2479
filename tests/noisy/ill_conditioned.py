"""A variance as E[x2] - E[x]2 far from zero, whose rounding is large, and ways to compute it: ``VARIANT FOLDER``."""

from __future__ import annotations

import sys

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger

VARIANT = sys.argv[1]


class Scale(nn.Module):
    """Divides by the deviation of each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 30
        mean = x.mean(-1, keepdim=True)
        if VARIANT == "two passes":
            variance = (x - mean).square().mean(-1, keepdim=True)
        else:
            variance = (x * x).mean(-1, keepdim=True) - mean * mean
        if VARIANT == "unbiased":
            variance = variance * 64 / 63
        return x / (variance + 1e-6).sqrt()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), Scale(), nn.Linear(64, 64), nn.GELU(), Scale(), nn.Linear(64, 8))
batch = torch.randn(16, 64)
debugger = PrecisionDebugger(dump_path=sys.argv[2], task="statistics", level="mix")
with debugger.collect(model):
    model(batch).square().mean().backward()
