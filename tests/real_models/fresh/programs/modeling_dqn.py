"""A value network of two streams, and its slow copy."""

import copy

import torch
import torch.nn as nn


class Values(nn.Module):
    def __init__(self, states=6, width=24, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, width), nn.LayerNorm(width), nn.ELU())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, actions)

    def forward(self, state):
        x = self.body(state)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = Values()
        self.slow = copy.deepcopy(self.online).requires_grad_(False)

    @torch.no_grad()
    def synchronize(self):
        for slow, online in zip(self.slow.parameters(), self.online.parameters(), strict=True):
            slow.copy_(online)
