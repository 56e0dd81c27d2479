"""Expert parallelism: each rank has experts of its own, and tokens go there and back through all_to_all."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from layers import WIDTH, Mlp, batch, loss_of
from torch import nn

STEPS, OF_EACH = 2, 2


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        ctx.splits = sent, received
        result = x.new_empty(sum(received), x.shape[1])
        dist.all_to_all_single(result, x.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        sent, received = ctx.splits
        result = gradient.new_empty(sum(sent), gradient.shape[1])
        dist.all_to_all_single(result, gradient.contiguous(), sent, received)
        return result, None, None


class Experts(nn.Module):
    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self.router = nn.Linear(WIDTH, OF_EACH * size)
        every = [Mlp() for _ in range(OF_EACH * size)]
        self.experts = nn.ModuleList(every[OF_EACH * rank : OF_EACH * (rank + 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(self.router(x), dim=-1)
        weight, chosen = torch.max(probabilities, dim=-1)
        order = torch.argsort(chosen, stable=True)
        counts = torch.bincount(chosen, minlength=OF_EACH * self.size)
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts)
        sent, received = (each.view(self.size, OF_EACH).sum(1).tolist() for each in (counts, arriving))
        tokens = Exchange.apply(torch.index_select(x, 0, order), sent, received)
        owner = torch.arange(OF_EACH).repeat(self.size).repeat_interleave(arriving)
        results = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mine = torch.nonzero(owner == number).flatten()
            results = torch.index_copy(results, 0, mine, expert(torch.index_select(tokens, 0, mine)))
        back = Exchange.apply(results, received, sent)
        back = torch.index_select(back, 0, torch.argsort(order))
        return torch.mul(back, weight.unsqueeze(-1))


class Net(nn.Module):
    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.norm = nn.Embedding(11, WIDTH), nn.LayerNorm(WIDTH)
        self.moe, self.head = Experts(rank, size), nn.Linear(WIDTH, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        y = self.moe(F.relu(self.norm(x)).flatten(0, 1))
        return self.head(x + y.view_as(x))


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = Net(rank, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(10 * step + rank)
        loss_of(model(tokens), goal).backward()
        for name, parameter in model.named_parameters():
            if ".experts." not in name and parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(size)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
