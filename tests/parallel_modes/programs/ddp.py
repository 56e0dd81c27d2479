"""DistributedDataParallel, in the ways that KIND says."""

import contextlib
from typing import Any

import torch
from layers import Net, batch, loss_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 2


class WithBranch(Net):
    """A model of which a part has no gradient in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.turn = 0

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.branches[self.turn % 2](self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    options = {"views": {"gradient_as_bucket_view": True}, "unused": {"find_unused_parameters": True}}.get(kind, {})
    net = WithBranch() if kind == "unused" else Net()
    model = DistributedDataParallel(net, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    parts = 2 if kind == "no_sync" else 1
    for step in range(STEPS):
        debugger.start(model)
        for part in range(parts):
            last = part == parts - 1
            tokens, goal = batch(100 * step + 10 * part + rank)
            with contextlib.nullcontext() if last else model.no_sync():
                loss = loss_of(model(tokens), goal)
                loss = torch.div(loss, parts)
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        net.turn = step + 1
        debugger.stop()
        debugger.step()
