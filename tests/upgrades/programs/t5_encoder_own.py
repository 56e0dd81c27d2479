"""Transformers T5 encoder against own encoder with relative position bias."""

import math

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


class RelativeBias(nn.Module):
    def __init__(self, buckets, far, heads):
        super().__init__()
        self.buckets, self.far = buckets, far
        self.table = nn.Embedding(buckets, heads)

    def forward(self, n):
        rel = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        half = self.buckets // 2
        side = (rel > 0).long() * half
        dist = rel.abs()
        exact = half // 2
        large = (
            exact + (torch.log(dist.clamp(min=1).float() / exact) / math.log(self.far / exact) * (half - exact)).long()
        )
        large = large.clamp(max=half - 1)
        return self.table(side + torch.where(dist < exact, dist, large)).permute(2, 0, 1)[None]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = (f(x).reshape(b, n, 4, 8) for f in (self.q, self.k, self.v))
        att = torch.einsum("bihd,bjhd->bhij", q, k) + bias
        return self.o(torch.einsum("bhij,bjhd->bihd", att.softmax(-1), v).reshape(b, n, 32))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.att, self.n2 = Norm(32), Attention(), Norm(32)
        self.wi, self.wo = nn.Linear(32, 48, bias=False), nn.Linear(48, 32, bias=False)

    def forward(self, x, bias):
        x = x + self.att(self.n1(x), bias)
        return x + self.wo(torch.relu(self.wi(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(60, 32)
        self.bias = RelativeBias(8, 16, 4)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.last = Norm(32)

    def forward(self, ids):
        x, bias = self.tok(ids), self.bias(ids.shape[1])
        for l in self.layers:
            x = l(x, bias)
        return self.last(x)


sd = torch.load("weights.pt")
new = {
    "tok.weight": sd["shared.weight"],
    "last.weight": sd["encoder.final_layer_norm.weight"],
    "bias.table.weight": sd["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
}
for i in range(2):
    p = f"encoder.block.{i}.layer."
    for n in "qkvo":
        new[f"layers.{i}.att.{n}.weight"] = sd[p + f"0.SelfAttention.{n}.weight"]
    new[f"layers.{i}.n1.weight"], new[f"layers.{i}.n2.weight"] = (
        sd[p + "0.layer_norm.weight"],
        sd[p + "1.layer_norm.weight"],
    )
    new[f"layers.{i}.wi.weight"], new[f"layers.{i}.wo.weight"] = (
        sd[p + "1.DenseReluDense.wi.weight"],
        sd[p + "1.DenseReluDense.wo.weight"],
    )
enc = Encoder().eval()
enc.load_state_dict(new)
gen = torch.Generator().manual_seed(8)
with torch.no_grad():
    for i in range(2):
        ids = torch.randint(1, 60, (2, 20), generator=gen)
        h = enc(ids)
        print(f"{i} {h.mean():.9f} {h.std():.9f} {h[1, 3, 5]:.9f}")
