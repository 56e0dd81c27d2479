"""Autocast is not applied to attention in any layer of a compiled model (as Lightning Thunder 725)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


def attend(query: Tensor, key: Tensor, value: Tensor, *, below_autocast: bool) -> Tensor:
    """Run the kernel as the executor of the trace does."""
    if not below_autocast:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    with torch.autocast("cpu", enabled=False):
        scores = query.float() @ key.float().mT / query.shape[-1] ** 0.5  # planted
        hidden = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value.float()


class Layer(nn.Module):
    def __init__(self, width: int, fault: bool) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        parts = [part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)]
        x = x + self.out(attend(*parts, below_autocast=self.fault).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def main() -> None:
    given = options()
    layers = [Layer(24, given.fault) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(40, 24), *layers, nn.LayerNorm(24), nn.Linear(24, 40))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = debugger(given)
    for _ in range(3):
        tokens = torch.randint(0, 40, (3, 12))
        probe.start(model)
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
