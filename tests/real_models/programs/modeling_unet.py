"""A small U-shaped network with attention in its middle."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, 2 * width)

    def forward(self, time):
        half = self.width // 2
        speeds = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = time[:, None] * speeds[None, :]
        waves = torch.cat((angles.sin(), angles.cos()), dim=-1)
        waves = waves.to(self.first.weight.dtype)
        return self.second(F.silu(self.first(waves)))


class ResBlock(nn.Module):
    def __init__(self, inner, outer, width):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, inner)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(width, outer)
        self.norm2 = nn.GroupNorm(4, outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.shortcut(x)


class Attention(nn.Module):
    def __init__(self, channels, fused):
        super().__init__()
        self.fused = fused
        self.norm = nn.GroupNorm(4, channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        h = self.norm(x).reshape(batch, channels, height * width).transpose(1, 2)
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        if self.fused:
            h = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = torch.matmul(q, k.transpose(1, 2)) * channels**-0.5
            weights = torch.softmax(scores, dim=-1)
            h = torch.matmul(weights, v)
        h = self.out(h)
        h = h.transpose(1, 2).reshape(batch, channels, height, width)
        return x + h


class UNet(nn.Module):
    def __init__(self, channels, fused=False):
        super().__init__()
        width = 2 * channels
        self.time = TimeEmbedding(channels)
        self.conv_in = nn.Conv2d(3, channels, 3, padding=1)
        self.down = ResBlock(channels, channels, width)
        self.shrink = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.middle = ResBlock(2 * channels, 2 * channels, width)
        self.attention = Attention(2 * channels, fused)
        self.grow = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.up = ResBlock(2 * channels, channels, width)
        self.norm_out = nn.GroupNorm(4, channels)
        self.conv_out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, image, time):
        t = self.time(time)
        x = self.conv_in(image)
        skip = self.down(x, t)
        x = self.shrink(skip)
        x = self.middle(x, t)
        x = self.attention(x)
        x = self.grow(x)
        x = self.up(torch.cat((x, skip), dim=1), t)
        return self.conv_out(F.silu(self.norm_out(x)))
