"""A small NeRF: coarse and fine radiance fields, stratified and importance sampling along the rays."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
NEAR, FAR, N_COARSE, N_FINE, RAYS = 2.0, 6.0, 16, 16, 64


class FourierFeatures(nn.Module):
    def __init__(self, n_freq):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(n_freq))
        self.out_dim = 3 + 6 * n_freq

    def forward(self, x):
        angles = (x[..., None] * self.freqs).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], dim=-1)


class Field(nn.Module):
    def __init__(self, width=32, skip=2):
        super().__init__()
        self.pos_enc, self.dir_enc = FourierFeatures(4), FourierFeatures(2)
        d = self.pos_enc.out_dim
        self.skip = skip
        self.trunk = nn.ModuleList([nn.Linear(d if i == 0 else width + d * (i == skip), width) for i in range(4)])
        self.sigma = nn.Linear(width, 1)
        self.bottleneck = nn.Linear(width, width)
        self.rgb = nn.Sequential(nn.Linear(width + self.dir_enc.out_dim, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, pts, dirs):
        enc = self.pos_enc(pts)
        h = enc
        for i, layer in enumerate(self.trunk):
            if i == self.skip:
                h = torch.cat([h, enc], dim=-1)
            h = F.relu(layer(h))
        view = self.dir_enc(dirs)[:, None].expand(-1, pts.shape[1], -1)
        color = self.rgb(torch.cat([self.bottleneck(h), view], dim=-1))
        return self.sigma(h).squeeze(-1), torch.sigmoid(color)


def composite(sigma, rgb, z):
    """Quadrature of the volume rendering integral on a white background."""
    delta = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 0.5)], dim=1)
    alpha = 1.0 - torch.exp(-F.softplus(sigma - 1.0) * delta)
    clear = torch.cumprod(1.0 - alpha + 1e-10, dim=1)
    weights = alpha * torch.cat([torch.ones_like(clear[:, :1]), clear[:, :-1]], dim=1)
    color = (weights[..., None] * rgb).sum(dim=1)
    return color + (1.0 - weights.sum(dim=1, keepdim=True)), weights


def sample_pdf(edges, weights, n, gen):
    pdf = (weights + 1e-5) / (weights + 1e-5).sum(dim=1, keepdim=True)
    cdf = F.pad(pdf.cumsum(dim=1), (1, 0))
    u = torch.rand(len(cdf), n, generator=gen)
    right = torch.searchsorted(cdf, u, right=True).clamp(1, cdf.shape[1] - 1)
    c0, c1 = cdf.gather(1, right - 1), cdf.gather(1, right)
    e0, e1 = edges.gather(1, right - 1), edges.gather(1, right)
    return e0 + (u - c0) / (c1 - c0).clamp_min(1e-5) * (e1 - e0)


class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.coarse, self.fine = Field(), Field()

    def forward(self, origins, dirs, gen):
        edges = torch.linspace(NEAR, FAR, N_COARSE + 1).expand(len(origins), -1)
        z = edges[:, :-1] + torch.rand(len(origins), N_COARSE, generator=gen) * (FAR - NEAR) / N_COARSE
        unit = F.normalize(dirs, dim=-1)
        points = origins[:, None] + z[..., None] * dirs[:, None]
        rgb_coarse, weights = composite(*self.coarse(points, unit), z)
        z_new = sample_pdf(edges, weights.detach(), N_FINE, gen)
        z = torch.cat([z, z_new], dim=1).sort(dim=1).values
        points = origins[:, None] + z[..., None] * dirs[:, None]
        rgb_fine, _ = composite(*self.fine(points, unit), z)
        return rgb_coarse, rgb_fine


def ball_scene(gen):
    """Rays towards a coloured unit ball at the origin, white elsewhere."""
    origins = F.normalize(torch.randn(RAYS, 3, generator=gen), dim=-1) * 4
    dirs = -origins / 4 + torch.randn(RAYS, 3, generator=gen) * 0.2
    a, b = dirs.square().sum(-1), (origins * dirs).sum(-1)
    disc = b**2 - a * (origins.square().sum(-1) - 1)
    t = (-b - disc.clamp_min(0).sqrt()) / a
    hit = origins + t[:, None] * dirs
    return origins, dirs, torch.where(disc[:, None] > 0, 0.5 + 0.5 * hit, 1.0).clamp(0, 1)


gen = torch.Generator().manual_seed(6)
model = NeRF()
opt = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-7)
decay = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: 0.1 ** (it / 20))
for step in range(3):
    origins, dirs, target = ball_scene(gen)
    rgb_coarse, rgb_fine = model(origins, dirs, gen)
    loss = F.mse_loss(rgb_coarse, target) + F.mse_loss(rgb_fine, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    decay.step()
    print(f"step {step} loss {loss.item():.9f}")
