"""A language model without attention: channels mixed over time by decaying sums."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def shifted(x):
    """Return the states of the token before."""
    return F.pad(x, (0, 0, 1, -1))


class TimeMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix_key = nn.Parameter(torch.zeros(width))
        self.mix_value = nn.Parameter(torch.zeros(width))
        self.decay = nn.Parameter(torch.zeros(width))
        self.bonus = nn.Parameter(torch.zeros(width))
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x):
        before = shifted(x)
        k = self.key(torch.lerp(before, x, torch.sigmoid(self.mix_key)))
        v = self.value(torch.lerp(before, x, torch.sigmoid(self.mix_value)))
        r = torch.sigmoid(self.gate(x))
        keep = torch.exp(-torch.exp(self.decay))
        weight = torch.exp(k)
        total = torch.zeros_like(x[:, 0])
        norm = torch.zeros_like(x[:, 0])
        outputs = []
        for t in range(x.shape[1]):
            now = weight[:, t] * torch.exp(self.bonus)
            outputs.append((total + now * v[:, t]) / (norm + now))
            total = keep * total + weight[:, t] * v[:, t]
            norm = keep * norm + weight[:, t]
        mixed = torch.stack(outputs, dim=1)
        return self.output(r * mixed)


class ChannelMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(width))
        self.key = nn.Linear(width, 2 * width, bias=False)
        self.value = nn.Linear(2 * width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)

    def forward(self, x):
        mixed = torch.lerp(shifted(x), x, torch.sigmoid(self.mix))
        k = torch.square(torch.relu(self.key(mixed)))
        return torch.sigmoid(self.gate(x)) * self.value(k)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=1e-5)
        self.time = TimeMix(width)
        self.norm2 = nn.RMSNorm(width, eps=1e-5)
        self.channels = ChannelMix(width)

    def forward(self, x):
        x = x + self.time(self.norm1(x))
        return x + self.channels(self.norm2(x))


class Recurrence(nn.Module):
    def __init__(self, words=48, width=24, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, words):
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
