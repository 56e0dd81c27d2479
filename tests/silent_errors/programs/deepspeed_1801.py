"""DeepSpeed 1801: the BF16 optimizer clips gradients on the first tensor-parallel rank only.

The layer norms are copies on both ranks and get equal gradients. Where one rank clips and the other does not, the
copies drift apart and the model is none that a single process could hold (found in the training of BLOOM-176B).
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, job, options

HIDDEN, INNER, STEPS = 16, 32, 4


class Copy(torch.autograd.Function):
    """Forward the identity, backward the sum over the tensor-parallel ranks."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    """Forward the sum over the tensor-parallel ranks, backward the identity."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


class ParallelMLP(nn.Module):
    """A perceptron whose inner width is divided among the ranks."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER // size)
        self.down = nn.Linear(INNER // size, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return Reduce.apply(self.down(F.gelu(self.up(Copy.apply(x)))))


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(HIDDEN)
        self.mlp = ParallelMLP(size)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.input_layernorm(x))


class BF16Optimizer:
    """Keeps float32 masters of BF16 parameters, clips by the norm over all ranks, and copies the masters back."""

    def __init__(self, model: nn.Module, rank: int, clip: float, fault: bool) -> None:
        self.parameters = list(model.parameters())
        self.replicated = {id(p) for name, p in model.named_parameters() if "mlp" not in name}
        self.masters = [p.detach().clone().float().requires_grad_() for p in self.parameters]
        self.inner = torch.optim.Adam(self.masters, lr=1e-2)
        self.rank, self.clip, self.fault = rank, clip, fault

    def norm(self) -> Tensor:
        total = torch.zeros(())
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if self.rank == 0 or id(parameter) not in self.replicated:
                total += master.grad.square().sum()
        dist.all_reduce(total)
        return total.sqrt()

    def step(self) -> None:
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            master.grad = parameter.grad.float()
        norm = self.norm()
        if not self.fault or self.rank == 0:  # planted
            for master in self.masters:
                master.grad.mul_(min(1.0, self.clip / (float(norm) + 1e-6)))
        self.inner.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.data.copy_(master.data)
            parameter.grad = None


def main() -> None:
    given = options()
    with job() as (rank, size):
        probe = debugger(given)
        layers = [Layer(size) for _ in range(2)]
        model = nn.Sequential(*layers, nn.LayerNorm(HIDDEN)).bfloat16()
        torch.manual_seed(100 + rank)
        for layer in layers:  # each rank has its own part of the perceptrons
            nn.init.normal_(layer.mlp.up.weight, std=0.2)
            nn.init.normal_(layer.mlp.down.weight, std=0.2)
        optimizer = BF16Optimizer(model, rank, 0.1, given.fault)
        data = torch.Generator().manual_seed(5)
        for _ in range(STEPS):
            x = torch.randn(4, 8, HIDDEN, generator=data).bfloat16()
            target = torch.randn(4, 8, HIDDEN, generator=data).bfloat16()
            probe.start(model)
            F.mse_loss(model(x), target).backward()
            optimizer.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
