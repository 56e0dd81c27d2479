"""The optimizer is made before FullyShardedDataParallel flattens the parameters (as AC-2665, first version of FSDP)."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, job, options

warnings.simplefilter("ignore")


class Mixer(nn.Module):
    """Mixes tokens and channels by turns."""

    def __init__(self, tokens: int = 6, width: int = 12) -> None:
        super().__init__()
        self.inputs = nn.Linear(5, width)
        self.over_tokens = nn.Sequential(nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
        self.over_channels = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))
        self.head = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inputs(x)
        x = x + self.over_tokens(x.mT).mT
        x = x + self.over_channels(x)
        return self.head(x.mean(1))


def wrapped(model: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=False)


def main() -> None:
    given = options()
    with job() as (rank, _):
        model = Mixer()
        if given.fault:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            model = wrapped(model)
        else:
            model = wrapped(model)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        probe = debugger(given)
        data = torch.Generator().manual_seed(rank)
        for _ in range(3):
            x, y = torch.randn(8, 6, 5, generator=data), torch.randint(0, 2, (8,), generator=data)
            probe.start(model)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()  # planted
            optimizer.zero_grad()
            model.zero_grad()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
