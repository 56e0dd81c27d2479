"""The layer after attention: one network, or experts of which a router chooses two for each token."""

from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
import torch.nn.functional as F
from layers import HIDDEN, INNER, ColumnParallelLinear, RowParallelLinear
from mappings import AllToAll, GatherSequence, into_cut_layer, out_of_cut_layer
from torch import nn
from weights import parameter

EXPERTS, CHOSEN = 4, 2


class MLP(nn.Module):
    """A gated network; the gate and what it lets through are one weight."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.linear_fc1 = ColumnParallelLinear(f"{name}.linear_fc1", 2, INNER, HIDDEN)
        self.linear_fc2 = RowParallelLinear(f"{name}.linear_fc2", HIDDEN, INNER)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = torch.chunk(self.linear_fc1(x), 2, dim=-1)
        return self.linear_fc2(torch.mul(F.silu(gate), value))


class Expert(nn.Module):
    """A network for some tokens; its result is a partial sum over tensor parallelism."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.up = parameter(f"{name}.up", INNER, HIDDEN, axis=0)
        self.down = parameter(f"{name}.down", HIDDEN, INNER, axis=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.gelu(F.linear(x, self.up)), self.down)


class Router(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", EXPERTS, HIDDEN)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = torch.softmax(F.linear(x, self.weight).float(), dim=-1)
        return torch.topk(probabilities, CHOSEN, dim=-1)


class MoELayer(nn.Module):
    """Routes the tokens of a rank, brings them to the ranks that have their experts, and adds up what comes back."""

    def __init__(self, name: str) -> None:
        super().__init__()
        ep = ps.group("ep")
        self.local = EXPERTS // ep.size
        self.router = Router(f"{name}.router")
        first = self.local * ep.rank
        self.experts = nn.ModuleList([Expert(f"{name}.experts.{first + each}") for each in range(self.local)])
        for each in self.experts.parameters():
            mark: Any = each
            mark.expert = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.router(x)
        if ps.LAYOUT.sequence:
            chosen = GatherSequence.apply(chosen, "tp")
        x, weight = into_cut_layer(x), into_cut_layer(weight)
        y = self.routed(x.flatten(0, 1), weight.flatten(0, 1), chosen.flatten(0, 1)).view_as(x)
        return out_of_cut_layer(y)

    def routed(self, x: torch.Tensor, weight: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(chosen.flatten(), stable=True)
        token = torch.div(order, CHOSEN, rounding_mode="floor")
        rows = torch.index_select(x, 0, token)
        rows = self.by_owner(rows, torch.bincount(chosen.flatten(), minlength=EXPERTS))
        rows = torch.mul(rows, weight.flatten()[order].to(x.dtype).unsqueeze(-1))
        return torch.index_add(torch.zeros_like(x), 0, token, rows)

    def by_owner(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return what the experts make of rows that are sorted by expert; ``counts`` of each."""
        ep = ps.group("ep")
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts, group=ep.handle)
        sent, received = (each.view(ep.size, self.local).sum(1).tolist() for each in (counts, arriving))
        rows = AllToAll.apply(rows, sent, received) if ep.size > 1 else rows
        owner = torch.arange(self.local).repeat(ep.size).repeat_interleave(arriving)
        results = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            mine = torch.nonzero(owner == number).flatten()
            results = torch.index_copy(results, 0, mine, expert(torch.index_select(rows, 0, mine)))
        return AllToAll.apply(results, received, sent) if ep.size > 1 else results
