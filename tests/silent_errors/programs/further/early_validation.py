"""The model stays in evaluation mode after a validation, so batch norm and dropout no longer train."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options, recorded


class Net(nn.Module):
    """A classifier of short recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, 12, 5, stride=2), nn.BatchNorm1d(12)
        self.drop, self.out = nn.Dropout(0.3), nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(F.relu(self.norm(self.conv(x))).mean(-1)))


@torch.no_grad()
def accuracy(model: nn.Module, keep: bool) -> float:
    """Return the share of right answers on data that is kept apart."""
    model.eval()
    x = torch.randn(20, 2, 24)
    right = (model(x).argmax(-1) == x[:, 0].mean(-1).gt(0).long()).float().mean()
    if not keep:
        model.train()
    return float(right)


def main() -> None:
    given = options()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    probe = debugger(given)
    model.train()
    for step in range(4):
        x = torch.randn(12, 2, 24)
        with recorded(probe, model):
            scores = model(x)  # planted
            optimizer.zero_grad()
            F.cross_entropy(scores, x[:, 0].mean(-1).gt(0).long()).backward()
            optimizer.step()
        if step == 1:
            print("accuracy", accuracy(model, keep=given.fault))


if __name__ == "__main__":
    main()
