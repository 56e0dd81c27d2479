"""An autoencoder with a codebook."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)


class Codebook(nn.Module):
    def __init__(self, n=16, d=6, beta=0.25):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(n, d) * 0.5)
        self.beta = beta

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, self.codes.shape[1])
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        idx = dist.argmin(1)
        q = self.codes[idx].view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1))
        self.book = Codebook()
        self.dec = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def forward(self, x):
        q, vq = self.book(self.enc(x))
        return self.dec(q), vq


net = VQVAE()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
g = torch.Generator().manual_seed(22)
for step in range(3):
    x = torch.rand(4, 1, 12, 12, generator=g)
    rec, vq = net(x)
    loss = F.mse_loss(rec, x) + vq
    opt.zero_grad()
    loss.backward()
    grad = sum(p.grad.abs().sum() for p in net.enc.parameters())
    opt.step()
    print(f"step {step} rec {F.mse_loss(rec, x).item():.9f} vq {vq.item():.9f} enc grad {grad.item():.9f}")
