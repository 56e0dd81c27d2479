"""Stack Overflow 67180955: the workers of a data loader draw the same random numbers.

Each sample is a random window of a series. The dataset has a generator of its own, which every worker inherits in the
same state, so worker 1 gives the windows that worker 0 has given.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

from tests.silent_errors.frame import debugger, options


class RandomWindows(Dataset):
    """Windows of a series at random places with some noise; the target is the value that follows."""

    def __init__(self, length: int, window: int) -> None:
        time = np.arange(400, dtype=np.float32)
        self.series = np.sin(time / 9) + 0.3 * np.sin(time / 2.3)
        self.length, self.window = length, window
        self.random = np.random.RandomState(7)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.float32]:
        begin = self.random.randint(0, len(self.series) - self.window - 1)
        part = self.series[begin : begin + self.window]
        noise = self.random.normal(0, 0.02, self.window)
        return (part + noise).astype(np.float32), self.series[begin + self.window]


def seed_worker(number: int) -> None:
    """Give each worker random numbers of its own."""
    info = get_worker_info()
    info.dataset.random = np.random.RandomState(info.seed % 2**32)


class Forecaster(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x[:, None]))
        _, hidden = self.rnn(x.mT)
        return self.out(hidden[-1]).squeeze(-1)


def main() -> None:
    given = options()
    data = RandomWindows(48, 24)
    loader = DataLoader(data, batch_size=8, num_workers=2, worker_init_fn=None if given.fault else seed_worker)
    model = Forecaster(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    probe = debugger(given)
    for x, y in loader:
        probe.start(model)
        prediction = model(x)  # planted
        loss = (prediction - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
