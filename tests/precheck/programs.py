"""Programs whose calls are recorded once, and checked in many ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from msprobe.core.store.reader import find_dumps
from msprobe.pytorch import PrecisionDebugger


def many_functions(dtype: torch.dtype) -> None:
    """Call about fifty functions of all kinds, forward and backward."""
    torch.manual_seed(3)

    def leaf(*shape: int, positive: bool = False) -> torch.Tensor:
        values = torch.randn(*shape)
        return (values.abs() + 0.5 if positive else values).to(dtype).requires_grad_()

    x, y, weight, bias, above = leaf(6, 32), leaf(6, 32), leaf(16, 32), leaf(16), leaf(6, 32, positive=True)
    images, kernel = leaf(2, 3, 12, 12), leaf(4, 3, 3, 3)
    ids = torch.tensor([3, 1, 4, 1, 5, 8])
    results = [
        torch.exp(x), torch.tanh(x), torch.sigmoid(x), x * y, x + y, x - y, x / above, torch.rsqrt(above),
        torch.sqrt(above), torch.log(above), torch.sin(x), torch.cos(x), torch.erf(x), torch.pow(above, 1.5),
        torch.abs(x), F.gelu(x), F.silu(x), F.relu(x), F.leaky_relu(x, 0.1), F.elu(x), F.softplus(x),
        torch.sum(x, dim=1), torch.mean(x, dim=1), torch.amax(x, dim=1), torch.cumsum(x, dim=1),
        F.softmax(x, dim=-1), F.log_softmax(x, dim=-1), torch.mm(x, weight.T), F.linear(x, weight, bias),
        torch.bmm(x.reshape(2, 3, 32), weight.reshape(2, 8, 32).transpose(1, 2)), torch.cat([x, y], dim=0),
        F.layer_norm(x, (32,), weight[0], weight[1]), F.embedding(ids, leaf(10, 8)), F.conv2d(images, kernel),
        F.avg_pool2d(images, 2), F.max_pool2d(images, 2), F.interpolate(images, scale_factor=2.0, mode="bilinear"),
        torch.where(x > 0, x, y), torch.clamp(x, -1, 1), torch.maximum(x, y), F.group_norm(images, 3),
        torch.index_select(x, 0, ids.clamp(max=5)), torch.gather(x, 1, ids[:, None]), torch.var(x, dim=1),
        F.mse_loss(x, y), F.cross_entropy(x, ids), torch.logsumexp(x, dim=1), torch.einsum("ij,kj->ik", x, weight),
        F.scaled_dot_product_attention(x[None], y[None], x[None]), torch.addmm(bias, x, weight.T),
    ]  # fmt: skip
    sum(torch.tanh(result.float()).sum() * 0.3 for result in results).backward()


class Block(nn.Module):
    """A block of a transformer with what usual models have, in-place changes and dropout among it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(100, 64), nn.LayerNorm(64)
        self.query, self.out, self.lstm = nn.Linear(64, 64), nn.Linear(64, 100), nn.LSTM(64, 64, batch_first=True)
        self.conv = nn.Conv1d(64, 64, 3, padding=1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(ids)
        hidden = hidden + self.conv(hidden.transpose(1, 2)).transpose(1, 2)
        query = self.query(self.norm(hidden)).reshape(4, 16, 4, 16).transpose(1, 2)
        attended = F.scaled_dot_product_attention(query, query, query, is_causal=True)
        hidden = hidden + attended.transpose(1, 2).reshape(4, 16, 64)
        hidden = F.dropout(F.gelu(hidden), 0.1)
        largest, _ = hidden.topk(32, -1)
        hidden = hidden.clone()
        hidden[..., 0] = largest.sum(-1)
        hidden.mul_(0.5)
        hidden, _ = self.lstm(hidden)
        return self.out(torch.exp(hidden * 0.1))


def train_block(dtype: torch.dtype) -> None:
    """Train the block for one step."""
    torch.manual_seed(0)
    model = Block().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    ids = torch.randint(0, 100, (4, 16))
    F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
    optimizer.step()


PROGRAMS = {"many functions": many_functions, "block": train_block}


def record(folder: Path, name: str, dtype: torch.dtype, task: str = "statistics") -> Path:
    """Record a program at L1 and return its dump.json."""
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": task})
    debugger.start()
    PROGRAMS[name](dtype)
    debugger.stop()
    debugger.step()
    (place,) = find_dumps(folder)
    return place.document
