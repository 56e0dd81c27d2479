"""A small regression network that is adapted to each task."""

import torch
import torch.nn as nn


class Learner(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.first = nn.Linear(2, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.second(x))
        return self.last(x).squeeze(-1)
