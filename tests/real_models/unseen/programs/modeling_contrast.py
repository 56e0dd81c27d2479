"""Momentum contrast: two views of an image, a slow copy of the encoder, and a queue of earlier keys."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, groups=2)
        self.norm2 = nn.GroupNorm(4, 2 * channels)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Linear(2 * channels, width)
        self.head = nn.Linear(width, width)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.silu(self.norm2(self.conv2(x)))
        x = self.pool(x).flatten(1)
        x = self.head(F.relu(self.hidden(x)))
        return F.normalize(x, dim=1)


class Contrast(nn.Module):
    def __init__(self, channels=8, width=16, queue=12):
        super().__init__()
        self.encoder = Encoder(channels, width)
        self.slow = copy.deepcopy(self.encoder).requires_grad_(False)
        generator = torch.Generator().manual_seed(5)
        self.register_buffer("queue", F.normalize(torch.randn(queue, width, generator=generator), dim=1))

    @torch.no_grad()
    def follow(self, momentum=0.9):
        for slow, fast in zip(self.slow.parameters(), self.encoder.parameters(), strict=True):
            slow.mul_(momentum).add_(fast, alpha=1 - momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue.copy_(torch.cat((self.queue[keys.shape[0] :], keys)))

    def forward(self, first, second, temperature=0.2):
        query = self.encoder(first)
        with torch.no_grad():
            key = self.slow(second)
        same = (query * key).sum(dim=1, keepdim=True)
        other = query @ self.queue.clone().t()
        logits = torch.cat((same, other), dim=1) / temperature
        return logits, key
