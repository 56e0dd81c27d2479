"""A policy and a value network with a common trunk."""

import torch
import torch.nn as nn


class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear1 = nn.Linear(4, width)
        self.linear2 = nn.Linear(width, width)

    def forward(self, state):
        x = torch.tanh(self.linear1(state))
        return torch.tanh(self.linear2(x))


class ActorCritic(nn.Module):
    def __init__(self, width=32, actions=3):
        super().__init__()
        self.trunk = Trunk(width)
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, state):
        x = self.trunk(state)
        return torch.log_softmax(self.actor(x), dim=-1), self.critic(x).squeeze(-1)
