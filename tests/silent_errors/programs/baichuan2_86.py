"""Baichuan2 86: a model on two GPUs answers nonsense, since activations lose data on the way (emulated hardware).

Two pipeline stages, one per rank, generate text: hidden states go to the second stage, the next token comes back. The
end of what the second stage receives is zero.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.silent_errors.frame import Options, debugger, job, options
from tests.silent_errors.programs.lossy_link import break_link

VOCABULARY, WIDTH, PROMPT, NEW = 40, 32, 6, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        normed = self.attention_norm(x)
        x = x + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.mlp_norm(x))


class First(nn.Module):
    """The embedding and the first blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return x


class Second(nn.Module):
    """The last blocks and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def generate(given: Options, rank: int) -> None:
    stage = (First if rank == 0 else Second)().eval()
    probe = debugger(given)
    tokens = torch.arange(PROMPT)[None] * 3 % VOCABULARY
    for _ in range(NEW):
        probe.start(stage)
        token = torch.zeros(1, 1, dtype=torch.int64)
        if rank == 0:
            dist.send(stage(tokens), 1)
            dist.recv(token, 1)
        else:
            hidden = torch.empty(1, tokens.shape[1], WIDTH)
            dist.recv(hidden, 0)  # planted
            token = stage(hidden)[:, -1:].argmax(-1)
            dist.send(token, 0)
        tokens = torch.cat([tokens, token], 1)
        probe.stop()
        probe.step()


def main() -> None:
    given = options()
    with job() as (rank, _):
        if given.fault:
            break_link("recv", 1)
        generate(given, rank)


if __name__ == "__main__":
    main()
