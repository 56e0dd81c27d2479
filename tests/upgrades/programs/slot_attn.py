"""Slot attention autoencoder with a spatial broadcast decoder."""

import torch
import torch.nn as nn

D, SLOTS, SIZE = 24, 4, 12


def position_grid(size):
    r = torch.linspace(0.0, 1.0, size)
    gy, gx = torch.meshgrid(r, r, indexing="ij")
    return torch.stack([gy, gx, 1 - gy, 1 - gx], dim=-1)


class SlotAttention(nn.Module):
    def __init__(self, dim, iters=2, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim**-0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.3)
        self.log_sigma = nn.Parameter(torch.full((1, 1, dim), -0.5))
        self.norm_in, self.norm_slots, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def step(self, slots, k, v):
        prev = slots
        q = self.to_q(self.norm_slots(slots)) * self.scale
        logits = torch.einsum("bnd,bsd->bns", k, q)
        attn = logits.softmax(dim=-1)
        attn = attn + self.eps
        attn = attn / attn.sum(dim=1, keepdim=True)
        updates = torch.einsum("bns,bnd->bsd", attn, v)
        slots = self.gru(updates.reshape(-1, updates.size(-1)), prev.reshape(-1, prev.size(-1)))
        slots = slots.view_as(prev)
        return slots + self.mlp(self.norm_mlp(slots))

    def forward(self, inputs, noise):
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        slots = self.mu + self.log_sigma.exp() * noise
        for _ in range(self.iters):
            slots = self.step(slots, k, v)
        slots = self.step(slots.detach(), k, v)
        return slots


class BroadcastDecoder(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.size = size
        self.pos = nn.Linear(4, dim)
        self.net = nn.Sequential(nn.Conv2d(dim, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1))
        self.register_buffer("grid", position_grid(size))

    def forward(self, slots):
        b, s, d = slots.shape
        x = slots.reshape(b * s, 1, 1, d).expand(-1, self.size, self.size, -1)
        x = (x + self.pos(self.grid)).permute(0, 3, 1, 2)
        out = self.net(x).view(b, s, 4, self.size, self.size)
        rgb, alpha = out[:, :, :3], out[:, :, 3:]
        alpha = alpha.softmax(dim=1)
        return (rgb * alpha).sum(dim=1), alpha


class SlotAutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, D, 5, padding=2), nn.ReLU(), nn.Conv2d(D, D, 5, padding=2), nn.ReLU())
        self.pos = nn.Linear(4, D)
        self.slots = SlotAttention(D)
        self.dec = BroadcastDecoder(D, SIZE)
        self.register_buffer("grid", position_grid(SIZE))

    def forward(self, img, noise):
        x = self.enc(img).permute(0, 2, 3, 1)
        x = x + self.pos(self.grid)
        slots = self.slots(x.flatten(1, 2), noise)
        return self.dec(slots)


def scene(n):
    img = torch.zeros(n, 3, SIZE, SIZE)
    for i in range(n):
        for _ in range(3):
            y, x = torch.randint(0, SIZE - 4, (2,)).tolist()
            img[i, :, y : y + 4, x : x + 3] = torch.rand(3, 1, 1)
    return img


torch.manual_seed(21)
model = SlotAutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 2))
for step in range(1, 4):
    img, noise = scene(3), torch.randn(3, SLOTS, D)
    recon, alpha = model(img, noise)
    mse = ((recon - img) ** 2).sum(dim=(1, 2, 3)).mean()
    entropy = -(alpha * (alpha + 1e-6).log()).sum(dim=1).mean()
    loss = mse + 0.1 * entropy
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    warmup.step()
    print(f"step {step} loss {loss.item():.9f}")
