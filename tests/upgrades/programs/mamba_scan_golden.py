"""Tiny selective state space classifier, plain sequential recurrence."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, STATE, RANK, DEPTH, CLASSES = 23, 12, 4, 3, 2, 5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class SelectiveSSM(nn.Module):
    def __init__(self, dim, state, rank, kernel=3):
        super().__init__()
        self.inner = 2 * dim
        self.state, self.rank = state, rank
        self.in_proj = nn.Linear(dim, 2 * self.inner, bias=False)
        self.conv1d = nn.Conv1d(self.inner, self.inner, kernel, groups=self.inner, padding=kernel - 1)
        self.x_proj = nn.Linear(self.inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, self.inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(self.inner, 1))
        self.D = nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, dim, bias=False)

    def forward(self, u):
        bsz, length, _ = u.shape
        x, z = self.in_proj(u).chunk(2, dim=-1)
        x = self.conv1d(x.transpose(1, 2))[..., :length].transpose(1, 2)
        x = F.silu(x)
        dt, b, c = self.x_proj(x).split([self.rank, self.state, self.state], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        a = -torch.exp(self.A_log)
        h = x.new_zeros(bsz, self.inner, self.state)
        outs = []
        for t in range(length):
            decay = torch.exp(dt[:, t, :, None] * a)
            h = decay * h + dt[:, t, :, None] * b[:, t, None, :] * x[:, t, :, None]
            outs.append(torch.einsum("ben,bn->be", h, c[:, t]))
        y = torch.stack(outs, dim=1) + x * self.D
        return self.out_proj(y * F.silu(z))


class Block(nn.Module):
    def __init__(self, dim, state, rank):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.mixer = SelectiveSSM(dim, state, rank)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class MambaClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Block(DIM, STATE, RANK) for _ in range(DEPTH))
        self.norm_f = RMSNorm(DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm_f(x).mean(dim=1))


def initialise(model, seed=0):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            p.copy_(
                torch.randn(p.shape, generator=g) * (0.6 if p.dim() > 1 else 0.3) + (1.0 if "norm" in name else 0.0)
            )
    return model


def make_batch(step):
    g = torch.Generator().manual_seed(100 + step)
    ids = torch.randint(0, VOCAB, (6, 11), generator=g)
    return ids, ids.sum(1) % CLASSES


def main():
    model = initialise(MambaClassifier())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    for step in range(3):
        ids, y = make_batch(step)
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
