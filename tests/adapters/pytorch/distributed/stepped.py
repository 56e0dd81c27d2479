"""One step of a model that is wrapped or sharded in several ways, with everything that ``step_records`` records."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from msprobe.pytorch import PrecisionDebugger

KINDS = ("ddp", "zero", "flat", "sharded", "by_hand")


def net() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))


def wrapped(kind: str) -> nn.Module:
    model = net()
    if kind == "flat":
        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    if kind == "sharded":
        return fully_shard(model)
    return nn.parallel.DistributedDataParallel(model)


def step(kind: str, model: nn.Module) -> None:
    parameters = list(model.parameters())
    if kind == "by_hand":
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.data -= 0.1 * parameter.grad
    elif kind == "zero":
        ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.SGD, lr=0.1).step()
    else:
        torch.optim.SGD(parameters, lr=0.1).step()


def run(kind: str, rank: int, folder: Path) -> None:
    PrecisionDebugger._instance = None
    config = {"level": "mix", "task": "statistics", "dump_path": str(folder / kind)}
    debugger: Any = PrecisionDebugger({**config, "step_records": ["parameters", "gradients"]})
    model = wrapped(kind)
    debugger.start(model=model)
    model(torch.full((3, 4), rank + 1.0)).sum().backward()
    step(kind, model)
    debugger.step()
    debugger.stop()


def whole() -> dict[str, Any]:
    """The norms of the gradients and of the parameters after one step of both ranks together, without any wrapper."""
    model = net()
    (sum(model(torch.full((3, 4), rank + 1.0)).sum() for rank in range(2)) / 2).backward()
    gradients = {name: value.grad.norm().item() for name, value in model.named_parameters() if value.grad is not None}
    step("ddp", model)
    return {
        "gradients": gradients,
        "parameters": {name: value.norm().item() for name, value in model.named_parameters()},
    }


if __name__ == "__main__":
    own_rank, out = int(sys.argv[1]), Path(sys.argv[2])
    (out / f"whole{own_rank}.json").write_text(json.dumps(whole()))
    dist.init_process_group("gloo", init_method=f"file://{out / 'store'}", rank=own_rank, world_size=2)
    for each in KINDS:
        run(each, own_rank, out)
    dist.barrier()
    dist.destroy_process_group()
