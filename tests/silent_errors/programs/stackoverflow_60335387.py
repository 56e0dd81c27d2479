"""Stack Overflow 60335387: the loop never clears the gradients, so each step adds to all that came before."""

from __future__ import annotations

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.silent_errors.frame import Options, debugger, options


class Net(nn.Module):
    """The network of the MNIST example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, 1)
        self.conv2 = nn.Conv2d(6, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.fc1 = nn.Linear(8 * 4 * 4, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def digits() -> TensorDataset:
    labels = torch.arange(40) % 10
    images = torch.randn(40, 1, 12, 12) * 0.3
    images[torch.arange(40), 0, labels] += 1.0
    return TensorDataset(images, labels)


def train(given: Options, model: nn.Module, loader: DataLoader, optimizer: optim.Optimizer) -> None:
    probe = debugger(given)
    model.train()
    for number, (data, target) in enumerate(loader):
        probe.start(model)
        if not given.fault:
            optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()  # planted
        probe.stop()
        probe.step()
        if number % 2 == 0:
            print(f"batch {number}: loss {loss.item():.4f}")


def main() -> None:
    given = options()
    model = Net()
    train(given, model, DataLoader(digits(), batch_size=8, shuffle=True), optim.Adadelta(model.parameters(), lr=1.0))


if __name__ == "__main__":
    main()
