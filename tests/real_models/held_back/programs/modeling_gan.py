"""A generator and a discriminator of small images."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class Generator(nn.Module):
    def __init__(self, latent, channels):
        super().__init__()
        self.start = nn.Linear(latent, 2 * channels * 16)
        self.norm1 = nn.BatchNorm2d(2 * channels)
        self.conv1 = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, z):
        x = self.start(z).view(z.shape[0], -1, 4, 4)
        x = F.relu(self.norm1(x))
        x = self.conv1(x)
        x = F.relu(self.norm2(x))
        return torch.tanh(self.conv2(x))


class Discriminator(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.conv2 = spectral_norm(nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1))
        self.head = nn.Linear(2 * channels, 1)

    def forward(self, x):
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.leaky_relu(self.conv2(x), 0.2)
        x = x.sum(dim=(2, 3))
        return self.head(x).squeeze(1)


class Gan(nn.Module):
    def __init__(self, latent=8, channels=8):
        super().__init__()
        self.generator = Generator(latent, channels)
        self.discriminator = Discriminator(channels)
