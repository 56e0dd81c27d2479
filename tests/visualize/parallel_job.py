"""A rank of a small model on gloo: ``python -m tests.visualize.parallel_job MODE RANK FOLDER``, MODE single, tp or pp.

All modes train the same weights on the same data, so that the merged dump of two ranks can be held against ``single``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.parallel_layers import ColumnParallelLinear, RowParallelLinear

MODE, RANK, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
WORLD = 1 if MODE == "single" else 2
SHARDS = 2 if MODE == "tp" else 1
LAYERS, WIDTH, INNER = 4, 8, 16


class Layer(nn.Module):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        up, down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH, bias=False)
        with torch.no_grad():
            for parameter in (*up.parameters(), *down.parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
        shard = RANK if SHARDS > 1 else 0
        self.up, self.down = ColumnParallelLinear(up, shard, SHARDS), RowParallelLinear(down, shard, SHARDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Model(nn.Module):
    """The layers of this rank, and the head on the last stage."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        layers = [Layer(generator) for _ in range(LAYERS)]
        if MODE == "pp":
            layers = layers[RANK * LAYERS // 2 :][: LAYERS // 2]
        self.layers = nn.ModuleList(layers)
        last = MODE != "pp" or RANK == 1
        self.head = nn.Linear(WIDTH, 2) if last else None
        if self.head is not None:
            nn.init.constant_(self.head.weight, 0.1)
            nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(x)


def step(model: Model, x: torch.Tensor) -> None:
    if MODE != "pp":
        model(x).square().mean().backward()
    elif RANK == 0:
        y = model(x)
        dist.send(y.detach(), dst=1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, src=1)
        y.backward(gradient)
    else:
        given = torch.empty_like(x)
        dist.recv(given, src=0)
        given.requires_grad_()
        model(given).square().mean().backward()
        dist.send(given.grad, dst=0)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo", init_method=f"file://{FOLDER / 'store'}", rank=RANK, world_size=WORLD)
    config = FOLDER / f"config{RANK}.json"
    config.write_text(json.dumps({"task": "statistics", "dump_path": str(FOLDER / "dump"), "level": "mix"}))
    debugger = PrecisionDebugger(str(config))
    model = Model()
    x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(6))
    debugger.start(model)
    step(model, x)
    debugger.stop()
    debugger.step()
    dist.barrier()
    dist.destroy_process_group()


main()
