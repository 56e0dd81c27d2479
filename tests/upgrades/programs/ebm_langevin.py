"""Energy based model of little bar images: contrastive divergence with a replay buffer and Langevin chains."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Config:
    size, batch, buffer = 12, 16, 64
    chain, step_size, noise = 8, 0.4, 0.02
    fresh, alpha, lr = 0.1, 0.5, 2e-3


class StdConv(nn.Conv2d):
    """Convolution with standardised weights."""

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, correction=0)
        weight = (self.weight - mean) / torch.sqrt(var + 1e-5)
        fan_in = self.weight[0].numel()
        return F.conv2d(x, weight * fan_in**-0.5, self.bias, self.stride, self.padding)


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = StdConv(cin, cout, 3, padding=1)
        self.conv2 = StdConv(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1, bias=False)

    def forward(self, x):
        h = self.conv2(F.silu(self.conv1(F.silu(x))))
        return F.avg_pool2d(h + self.skip(x), 2)


class Energy(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.block1 = ResBlock(width, width)
        self.block2 = ResBlock(width, 2 * width)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, x):
        h = self.block2(self.block1(self.stem(x)))
        h = F.silu(h).sum(dim=(2, 3))
        return self.head(h).squeeze(1)


class ReplayBuffer:
    def __init__(self, cfg, gen):
        self.cfg, self.gen = cfg, gen
        self.images = torch.rand(cfg.buffer, 1, cfg.size, cfg.size, generator=gen)

    def draw(self):
        idx = torch.randperm(self.cfg.buffer, generator=self.gen)[: self.cfg.batch]
        start = self.images[idx].clone()
        fresh = torch.rand(len(idx), generator=self.gen) < self.cfg.fresh
        noise = torch.rand(start.shape, generator=self.gen)
        return idx, torch.where(fresh[:, None, None, None], noise, start)

    def put(self, idx, samples):
        self.images[idx] = samples


def langevin(energy, x, cfg, gen):
    for _ in range(cfg.chain):
        x = x.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(energy(x).sum(), x)
        x = x - cfg.step_size * grad.clamp(-0.1, 0.1)
        x = x + cfg.noise * torch.randn(x.shape, generator=gen)
        x = x.clamp(0.0, 1.0)
    return x.detach()


def bars(cfg, gen):
    x = torch.rand(cfg.batch, 1, cfg.size, cfg.size, generator=gen) * 0.1
    at = torch.randint(1, cfg.size - 2, (cfg.batch,), generator=gen)
    for i, a in enumerate(at.tolist()):
        x[i, :, a : a + 2] += 0.8 if i % 2 else 0.0
        x[i, :, :, a : a + 2] += 0.0 if i % 2 else 0.8
    return x.clamp(0, 1)


cfg = Config()
torch.manual_seed(13)
gen = torch.Generator().manual_seed(2)
model = Energy()
buffer = ReplayBuffer(cfg, gen)
opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.0, 0.999))
for step in range(3):
    real = bars(cfg, gen)
    idx, start = buffer.draw()
    fake = langevin(model, start, cfg, gen)
    buffer.put(idx, fake)
    e_real, e_fake = model(real), model(fake)
    loss = (e_real - e_fake).mean() + cfg.alpha * (e_real**2 + e_fake**2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
