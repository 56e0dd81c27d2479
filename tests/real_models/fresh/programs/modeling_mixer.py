"""An image classifier of perceptrons alone: over the patches, then over the channels."""

import torch.nn as nn
import torch.nn.functional as F


class Perceptron(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Mix(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.over_patches = Perceptron(patches, 2 * patches)
        self.norm2 = nn.LayerNorm(width)
        self.over_channels = Perceptron(width, 2 * width)

    def forward(self, x):
        x = x + self.over_patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, width=24, patches=16, layers=2, classes=7):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, stride=4)
        self.layers = nn.ModuleList(Mix(patches, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.embed(image).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))
