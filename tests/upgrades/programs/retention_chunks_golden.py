"""Retentive network, parallel form, as the trainer scores sampled text."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Retention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(5))
        self.norm = nn.GroupNorm(heads, dim)

    def forward(self, x):
        b, t, d = x.shape
        split = lambda y: y.view(b, t, self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        gamma = 1 - 2.0 ** (-1.0 - torch.arange(self.heads))
        n = torch.arange(t)
        dist = (n[:, None] - n[None, :]).float()
        decay = gamma[:, None, None] ** dist.clamp(min=0) * (dist >= 0)
        att = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5 * decay
        y = (att @ v).transpose(1, 2).reshape(b * t, d)
        y = self.norm(y).view(b, t, d)
        return self.o(F.silu(self.g(x)) * y)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.retention = Retention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.retention(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class RetNet(nn.Module):
    def __init__(self, vocab=32, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.final = nn.LayerNorm(dim)

    def forward(self, ids):
        return F.linear(self.final(self.layers(self.emb(ids))), self.emb.weight) / 32**0.5


def build():
    return RetNet()


def main():
    net = build().eval()
    net.load_state_dict(torch.load("weights.pt"))
    torch.manual_seed(5)
    ids = torch.randint(0, 32, (2, 22))
    with torch.no_grad():
        logp = net(ids[:, :-1]).log_softmax(-1)
    token_logp = logp.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    print(f"prompt logp {token_logp[:, :13].mean().item():.9f}")
    for i in range(2):
        print(f"sample {i}: completion logp {token_logp[i, 13:].sum().item():.9f}")
    print(f"entropy {-(logp.exp() * logp).sum(-1)[:, 13:].mean().item():.9f}")


if __name__ == "__main__":
    main()
