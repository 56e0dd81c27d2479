"""Pipelines of torch with four micro batches: GPipe and 1F1B."""

from typing import Any

import torch
from layers import Net, batch, loss_of
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

STEPS = 2
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Stage(nn.Module):
    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        net = Net(blocks=size)
        self.calls = 0
        self.first, self.last = rank == 0, rank == size - 1
        if self.first:
            self.embed = net.embed
        self.block = net.blocks[rank]
        if self.last:
            self.norm, self.head = net.norm, net.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first:
            x = self.embed(x)
        x = self.block(x)
        self.calls += 1
        if self.last:
            x = self.head(self.norm(x))
        return x


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = Stage(rank, size)
    stage = PipelineStage(model, rank, size, torch.device("cpu"))
    schedule = SCHEDULES[kind](stage, n_microbatches=4, loss_fn=loss_of)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(step, 8)
        if rank == 0:
            schedule.step(tokens)
        elif rank == size - 1:
            schedule.step(target=goal)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
