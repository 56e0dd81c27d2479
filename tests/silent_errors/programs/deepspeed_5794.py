"""DeepSpeed 5794: ranks of a mixture of experts call all_to_all with arguments that do not fit.

Without dropping tokens, the capacity of an expert follows from the tokens of each rank, and all ranks must agree on
the largest one. Where they do not, a rank sends fewer rows than its partner expects. NCCL hangs or reads what lies
there; gloo leaves the rest of the buffer as it was.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, job, options

WIDTH, TOKENS = 16, 24


class AllToAll(torch.autograd.Function):
    """Exchanges the rows of the experts; backward is the exchange in the other direction."""

    @staticmethod
    def forward(ctx, x: Tensor, received: list[int], sent: list[int]) -> Tensor:
        ctx.received, ctx.sent = received, sent
        output = torch.zeros(sum(received), x.shape[1])
        dist.all_to_all_single(output, x.contiguous(), received, sent)  # planted
        return output

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        output = torch.zeros_like(gradient)
        dist.all_to_all_single(output, gradient.contiguous(), ctx.received, ctx.received)
        rows = [part[:count] for part, count in zip(output.split(ctx.received), ctx.sent, strict=True)]
        return torch.cat(rows), None, None


class MoE(nn.Module):
    """One expert per rank; a token goes to the expert that the gate prefers."""

    def __init__(self, rank: int, size: int, fault: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, size, bias=False)
        self.expert = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.rank, self.size, self.fault = rank, size, fault

    def capacities(self, counts: Tensor) -> tuple[list[int], list[int]]:
        """Return how many rows come from and go to each rank."""
        capacity = counts.max().reshape(1)
        dist.all_reduce(capacity, dist.ReduceOp.MAX)
        rows = [int(capacity)] * self.size
        if not self.fault:
            return rows, rows
        local = [int(capacity) if one == self.rank else int(counts[one]) for one in range(self.size)]
        return rows, local

    def forward(self, x: Tensor) -> Tensor:
        scores = self.gate(x).softmax(-1)
        weight, choice = scores.max(-1)
        received, sent = self.capacities(torch.bincount(choice, minlength=self.size))
        packed = []
        for number, rows in enumerate(sent):
            mine = x[choice == number]
            packed.append(F.pad(mine, (0, 0, 0, rows - len(mine))))
        arrived = AllToAll.apply(torch.cat(packed), received, sent)
        returned = AllToAll.apply(self.expert(arrived), received, received)
        result = torch.zeros_like(x)
        for number, rows in enumerate(returned.split(received)):
            places = (choice == number).nonzero().flatten()
            result = result.index_add(0, places, rows[: len(places)])
        return x + result * weight[:, None]


def main() -> None:
    given = options()
    with job() as (rank, size):
        probe = debugger(given)
        model = nn.ModuleDict({
            "inputs": nn.Linear(8, WIDTH),
            "moe": MoE(rank, size, given.fault),
            "head": nn.Linear(WIDTH, 4),
        })
        torch.manual_seed(50 + rank)
        nn.init.normal_(model["moe"].expert[0].weight, std=0.2)
        shared = [p for name, p in model.named_parameters() if "expert" not in name]
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(3):
            x, y = torch.randn(TOKENS, 8), torch.randint(0, 4, (TOKENS,))
            probe.start(model)
            loss = F.cross_entropy(model["head"](model["moe"](model["inputs"](x))), y)
            optimizer.zero_grad()
            loss.backward()
            for parameter in shared:
                dist.all_reduce(parameter.grad)
                parameter.grad /= size
            optimizer.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
