"""A part of the model is not wrapped by DistributedDataParallel, so its gradients are not reduced (as jxmnop)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.silent_errors.frame import debugger, job, options


class Tower(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.net(x), dim=-1)


class Similarity(nn.Module):
    """Turns two embeddings into a score, with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.scale.exp() * self.mix(left) @ right.mT


def main() -> None:
    given = options()
    with job() as (rank, _):
        towers = nn.ModuleDict({"left": Tower(10), "right": Tower(6)})
        score: nn.Module = Similarity()
        parts: dict[str, nn.Module] = {name: DistributedDataParallel(tower) for name, tower in towers.items()}
        if not given.fault:
            score = DistributedDataParallel(score)
        model = nn.ModuleDict({**parts, "score": score})
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        probe = debugger(given)
        data = torch.Generator().manual_seed(rank)
        for _ in range(3):
            x = torch.randn(8, 10, generator=data)
            probe.start(model)
            scores = model["score"](model["left"](x), model["right"](x[:, :6]))  # planted
            optimizer.zero_grad()
            F.cross_entropy(scores, torch.arange(8)).backward()
            optimizer.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
