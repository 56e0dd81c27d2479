"""PyTorch 84803: peer-to-peer copies between GPUs lose data during the reduction of gradients (emulated hardware).

Data-parallel training by hand: gradients are flattened, summed over the ranks and copied back. On rank 1 the last
part of what arrives is zero, so the two copies of the model take different steps.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, job, options
from tests.silent_errors.programs.lossy_link import break_link


class ConvNet(nn.Module):
    """A classifier of small images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.fc1 = nn.Linear(16 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def reduce_gradients(model: nn.Module, size: int) -> None:
    """Average the gradients over all ranks in one flat buffer."""
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)  # planted
    flat /= size
    for gradient, piece in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))


def main() -> None:
    given = options()
    with job() as (rank, size):
        model = ConvNet()  # the same seed on both ranks
        if given.fault:
            break_link("allreduce", 1, share=0.3)
        probe = debugger(given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        data = torch.Generator().manual_seed(rank)
        for _ in range(4):
            images = torch.randn(8, 1, 8, 8, generator=data)
            labels = torch.randint(0, 10, (8,), generator=data)
            probe.start(model)
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            reduce_gradients(model, size)
            optimizer.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
