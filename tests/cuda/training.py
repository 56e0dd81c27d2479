"""A small training on a device, and what a debugger has recorded of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

if torch.cuda.is_available():
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the first matrices are multiplied


class Block(nn.Module):
    """Attention and a gated layer with residual branches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.drop(self.out(mixed))
        return x + self.down(nn.functional.gelu(self.up(x)))


def model_and_data(width: int = 64, device: str = "cuda") -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, width), Block(width), Block(width), nn.Linear(width, 50))
    ids = torch.randint(0, 50, (4, 16))
    return model.to(device), ids.to(device)


def train(
    model: nn.Module, ids: torch.Tensor, steps: int, debugger: Any = None, dtype: torch.dtype | None = torch.bfloat16
) -> list[float]:
    """Train with operations in ``dtype`` where autocast says so, and return the losses."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)  # as on a CPU
    losses = []
    for _ in range(steps):
        if debugger is not None:
            debugger.start(model)
        with torch.autocast(ids.device.type, dtype, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        losses.append(loss.item())
    return losses


def entries(folder: Path, step: int = 0) -> dict[str, Any]:
    (document,) = folder.glob(f"step{step}/*/dump.json")
    return json.loads(document.read_text())["data"]
