"""Data parallelism without a wrapper: gradients are reduced one by one, or in one flat buffer."""

from typing import Any

import torch
import torch.distributed as dist
from layers import Net, batch, loss_of

STEPS = 2


def reduce_each(model: Net, size: int, alone: dist.ProcessGroup) -> None:
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        dist.all_reduce(gradient)
        gradient.div_(size)


def reduce_flat(model: Net, size: int) -> None:
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient).div(size))


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = Net()
    alone = [dist.new_group([each]) for each in range(size)][rank]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(10 * step + rank)
        loss_of(model(tokens), goal).backward()
        if kind == "flat":
            reduce_flat(model, size)
        else:
            reduce_each(model, size, alone)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
