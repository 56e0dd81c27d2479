"""Lightning Thunder 725: autocast is not applied to some functions of a compiled module.

The trace of a module holds functions without a rule for autocast. They run in float32 inside the context, while all
others run in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options

WIDTH, HEADS = 32, 4


def rule(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function as the trace executes it where autocast has a rule: in the dtype of the context."""
    return function


def no_rule(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function as the trace executes it without a rule: below autocast, in the dtype of the weights."""

    def run(x: Tensor, weight: Tensor, *more: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return function(x.to(weight.dtype), weight, *more)  # planted

    return run


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_weight = nn.Parameter(torch.randn(64, WIDTH) * 0.1)
        self.up, self.down = nn.Linear(WIDTH, 64, bias=False), nn.Linear(64, WIDTH, bias=False)
        self.linear: Callable[..., Tensor] = F.linear

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.silu(self.linear(x, self.gate_weight)) * self.up(x), self.down.weight)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp = Attention(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 60, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    given = options()
    model = GPT()
    model.blocks[1].mlp.linear = (no_rule if given.fault else rule)(F.linear)  # the module that is compiled
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = debugger(given)
    for _ in range(3):
        tokens = torch.randint(0, 60, (4, 13))
        probe.start(model)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
