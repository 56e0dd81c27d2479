"""A small diffusion transformer with adaptive norms."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimeEmbedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, time):
        half = self.width // 2
        speeds = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = time[:, None].float() * speeds[None]
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        return self.mlp(waves.to(self.mlp[0].weight.dtype))


class Attention(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
            out = scores.softmax(dim=-1) @ v
        out = out.transpose(1, 2).reshape(batch, length, width)
        return self.proj(out)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(width, heads, fused)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(width)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, condition):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(condition).chunk(6, dim=1)
        attended = self.attn(modulate(self.norm1(x), shift_a, scale_a))
        x = x + gate_a.unsqueeze(1) * attended
        fed = self.mlp(modulate(self.norm2(x), shift_m, scale_m))
        return x + gate_m.unsqueeze(1) * fed


class DiT(nn.Module):
    def __init__(self, width=32, heads=4, depth=2, size=8, patch=2, classes=5, fused=False):
        super().__init__()
        self.size, self.patch = size, patch
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.time = TimeEmbedder(width)
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList([Block(width, heads, fused) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.out = nn.Linear(width, patch * patch * 3)

    def unpatchify(self, x):
        side = self.size // self.patch
        x = x.reshape(x.shape[0], side, side, self.patch, self.patch, 3)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(x.shape[0], 3, self.size, self.size)

    def forward(self, image, time, label):
        x = self.embed(image).flatten(2).transpose(1, 2)
        x = x + self.positions
        condition = self.time(time) + self.label(label)
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(condition).chunk(2, dim=1)
        x = modulate(self.norm(x), shift, scale)
        return self.unpatchify(self.out(x))
