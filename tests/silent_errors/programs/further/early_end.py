"""The count of update steps forgets the accumulation, so the schedule is made for more steps than there are.

The kind of Transformers 33455 in a loop by hand: the training ends while its learning rate is still high.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.silent_errors.frame import debugger, options

EPOCHS, ACCUMULATED = 2, 3


class Rater(nn.Module):
    """Rates pairs of users and films."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(12, 8), nn.Embedding(20, 8)
        self.hidden, self.out = nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.users(pairs[:, 0]), self.films(pairs[:, 1])], -1)
        return self.out(F.selu(self.hidden(x))).squeeze(-1)


def ratings() -> TensorDataset:
    pairs = torch.stack([torch.randint(0, 12, (36,)), torch.randint(0, 20, (36,))], -1)
    return TensorDataset(pairs, torch.rand(36) * 4 + 1)


def main() -> None:
    given = options()
    loader = DataLoader(ratings(), batch_size=6, shuffle=True)
    steps = EPOCHS * len(loader)
    if not given.fault:
        steps //= ACCUMULATED
    model = Rater()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    probe = debugger(given)
    for _ in range(EPOCHS):
        for number, (pairs, ratings_) in enumerate(loader, 1):
            if number % ACCUMULATED == 1:
                probe.start(model)
                optimizer.zero_grad()
            loss = F.mse_loss(model(pairs), ratings_) / ACCUMULATED
            loss.backward()
            if number % ACCUMULATED == 0:
                optimizer.step()
                scheduler.step()  # planted
                probe.stop()
                probe.step()


if __name__ == "__main__":
    main()
