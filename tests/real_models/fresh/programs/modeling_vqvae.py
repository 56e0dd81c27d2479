"""An auto-encoder with a book of codes, which follow the states that choose them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Book(nn.Module):
    def __init__(self, codes=12, width=8, decay=0.9):
        super().__init__()
        self.decay = decay
        generator = torch.Generator().manual_seed(7)
        self.register_buffer("codes", torch.randn(codes, width, generator=generator))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def nearest(self, rows):
        distance = rows.square().sum(dim=1, keepdim=True) - 2 * rows @ self.codes.t() + self.codes.square().sum(dim=1)
        return distance.argmin(dim=1)

    @torch.no_grad()
    def follow(self, rows, index):
        chosen = F.one_hot(index, len(self.codes)).to(rows.dtype)
        self.counts.mul_(self.decay).add_(chosen.sum(dim=0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(chosen.t() @ rows, alpha=1 - self.decay)
        total = self.counts.sum()
        counts = (self.counts + 1e-3) / (total + len(self.codes) * 1e-3) * total
        self.codes.copy_(self.sums / counts[:, None])

    def forward(self, x):
        rows = x.permute(0, 2, 3, 1).flatten(0, 2)
        index = self.nearest(rows.detach())
        found = F.embedding(index, self.codes)
        self.follow(rows.detach(), index)
        commitment = F.mse_loss(rows, found)
        found = rows + (found - rows).detach()
        return found.view(x.shape[0], *x.shape[2:], -1).permute(0, 3, 1, 2), commitment, index


class Coder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, width, 4, stride=2, padding=1)
        self.book = Book(width=width)
        self.back1 = nn.ConvTranspose2d(width, 16, 4, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.back2 = nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1)

    def forward(self, image):
        x = self.conv2(F.leaky_relu(self.conv1(image), 0.1))
        found, commitment, index = self.book(x)
        drawn = self.back2(F.silu(self.norm(self.back1(found))))
        return drawn, commitment, index
