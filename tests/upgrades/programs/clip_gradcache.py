"""Contrastive training in micro-batches: embeddings without graph first, their gradients cached, then a second pass."""

import math

import torch
import torch.nn.functional as F
from torch import nn

MICRO = 4


class Pictures(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.stem = nn.Linear(27, 8)
        self.depthwise = nn.Parameter(torch.zeros(3, 3, 8))
        self.depthwise_bias = nn.Parameter(torch.zeros(8))
        self.pointwise = nn.Linear(8, 14)
        self.out = nn.Linear(14, dim, bias=False)

    @staticmethod
    def hswish(x):
        return x * F.relu6(x + 3) / 6

    def forward(self, x):
        patches = x.unfold(2, 3, 2).unfold(3, 3, 2)  # (b, 3, h, w, 3, 3)
        h = self.hswish(self.stem(patches.permute(0, 2, 3, 1, 4, 5).flatten(3)))
        wide = F.pad(h, (0, 0, 1, 1, 1, 1))
        n, m = h.shape[1:3]
        acc = torch.zeros_like(h)
        for dy in range(3):
            for dx in range(3):
                acc = acc + wide[:, dy : dy + n, dx : dx + m] * self.depthwise[dy, dx]
        h = self.hswish(self.pointwise(acc + self.depthwise_bias))
        return self.out(h.flatten(1, 2).mean(1))


class Words(nn.Module):
    def __init__(self, dim=16, width=14, heads=2):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(33, width)
        self.ln_a, self.ln_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.out = nn.Linear(width, dim, bias=False)

    def attention(self, x, real):
        q, k, v = (y.unflatten(2, (self.heads, -1)) for y in self.qkv(x).chunk(3, -1))
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        s = torch.where(real[:, None, None, :], s, torch.full_like(s, -1e9))
        return self.o(torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).flatten(2))

    def forward(self, ids):
        real = ids != 0
        x = self.table(ids)
        x = x + self.attention(self.ln_a(x), real)
        x = x + self.down(F.gelu(self.up(self.ln_b(x))))
        # the last real word of every text
        is_last = real & ~F.pad(real[:, 1:], (0, 1))
        return self.out((x * is_last.unsqueeze(-1)).sum(1))


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.pictures, self.words = Pictures(), Words()
        self.log_scale = nn.Parameter(torch.tensor(0.0))

    def embed(self, x, ids):
        a, b = self.pictures(x), self.words(ids)
        return a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)

    def forward(self, a, b):
        """symmetric contrastive loss of embeddings"""
        logits = self.log_scale.exp() * (a @ b.t())
        hit = logits.diagonal()
        rows = logits.logsumexp(1) - hit
        cols = logits.logsumexp(0) - hit
        return 0.5 * (rows.mean() + cols.mean())


def convert(sd):
    new = {"log_scale": sd["logit_scale"]}
    new["pictures.stem.weight"] = sd["image.conv1.weight"].flatten(1)
    new["pictures.stem.bias"] = sd["image.conv1.bias"]
    new["pictures.depthwise"] = sd["image.dw.weight"][:, 0].permute(1, 2, 0)
    new["pictures.depthwise_bias"] = sd["image.dw.bias"]
    new["pictures.pointwise.weight"] = sd["image.pw.weight"][:, :, 0, 0]
    new["pictures.pointwise.bias"] = sd["image.pw.bias"]
    new["pictures.out.weight"] = sd["image.proj.weight"]
    new["words.table.weight"], new["words.out.weight"] = sd["text.tok.weight"], sd["text.proj.weight"]
    for k in ("weight", "bias"):
        new[f"words.qkv.{k}"] = sd[f"text.mix.self_attn.in_proj_{k}"]
        for mine, theirs in (
            ("o", "self_attn.out_proj"),
            ("up", "linear1"),
            ("down", "linear2"),
            ("ln_a", "norm1"),
            ("ln_b", "norm2"),
        ):
            new[f"words.{mine}.{k}"] = sd[f"text.mix.{theirs}.{k}"]
    return new


def cached_step(model, x, ids):
    pieces = list(zip(x.split(MICRO), ids.split(MICRO)))
    with torch.no_grad():
        a, b = (torch.cat(part) for part in zip(*[model.embed(*p) for p in pieces]))
    a.requires_grad_(), b.requires_grad_()
    loss = model(a, b)
    loss.backward()
    for p, ga, gb in zip(pieces, a.grad.split(MICRO), b.grad.split(MICRO)):
        ea, eb = model.embed(*p)
        ((ea * ga).sum() + (eb * gb).sum()).backward()
    return loss.detach()


def clip(params, limit):
    total = torch.sqrt(sum(p.grad.pow(2).sum() for p in params))
    if total > limit:
        for p in params:
            p.grad.mul_(limit / (total + 1e-6))
    return total


def adamw(params, state, t, lr=4e-3, wd=0.2, b1=0.9, b2=0.999, eps=1e-8):
    with torch.no_grad():
        for p, (m, v) in zip(params, state):
            if p.dim() > 1:
                p.mul_(1 - lr * wd)
            m.mul_(b1).add_(p.grad, alpha=1 - b1)
            v.mul_(b2).add_(p.grad * p.grad, alpha=1 - b2)
            denom = v.sqrt() / (1 - b2**t) ** 0.5 + eps
            p.sub_(lr / (1 - b1**t) * m / denom)


def pairs(step, n=12):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(n, 3, 9, 9, generator=g)
    ids = torch.randint(1, 33, (n, 7), generator=g)
    lengths = torch.randint(2, 8, (n,), generator=g)
    return x, ids.masked_fill(torch.arange(7) >= lengths[:, None], 0)


def main():
    model = TwoTowers()
    model.load_state_dict(convert(torch.load("weights.pt")))
    params = list(model.parameters())
    state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]
    for step in range(3):
        model.zero_grad()
        loss = cached_step(model, *pairs(step))
        norm = clip(params, 0.5)
        adamw(params, state, step + 1)
        model.log_scale.data.clamp_(0, math.log(100))
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f} scale {model.log_scale.exp().item():.9f}")


if __name__ == "__main__":
    main()
