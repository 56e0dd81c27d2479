"""T5 v1.1 in plain torch, with weights taken over from a transformers checkpoint."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Bias(nn.Module):
    """Learned bias a head by bucketed distance; `two_sided` for the encoder."""

    def __init__(self, heads, two_sided, buckets=8, furthest=12):
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.two_sided, self.buckets, self.furthest = two_sided, buckets, furthest

    def bucket(self, offset):
        n = self.buckets
        if self.two_sided:
            n = n // 2
            start = n * (offset > 0).long()
            distance = offset.abs()
        else:
            start = torch.zeros_like(offset)
            distance = (-offset).clamp(min=0)
        exact = n // 2
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.furthest / exact)
        coarse = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        return start + torch.where(distance < exact, distance, coarse)

    def forward(self, length):
        index = torch.arange(length)
        return self.table(self.bucket(index[None, :] - index[:, None])).permute(2, 0, 1)


class Attention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, bias, memory=None):
        h = self.norm(x)
        heads = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(h if memory is None else memory).chunk(2, dim=-1)
        score = heads(self.q(h)) @ heads(k).mT + bias
        y = score.softmax(-1) @ heads(v)
        return x + self.o(y.transpose(1, 2).flatten(2))


class GatedFF(nn.Module):
    def __init__(self, d=32, ff=48):
        super().__init__()
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.gate, self.up, self.down = (
            nn.Linear(d, ff, bias=False),
            nn.Linear(d, ff, bias=False),
            nn.Linear(ff, d, bias=False),
        )

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = Bias(4, two_sided=True)
        self.attn = nn.ModuleList(Attention() for _ in range(2))
        self.ff = nn.ModuleList(GatedFF() for _ in range(2))
        self.norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, x, pad):
        bias = self.bias(x.shape[1]) + pad
        for attn, ff in zip(self.attn, self.ff):
            x = ff(attn(x, bias))
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = Bias(4, two_sided=False)
        self.attn = nn.ModuleList(Attention() for _ in range(2))
        self.cross = nn.ModuleList(Attention() for _ in range(2))
        self.ff = nn.ModuleList(GatedFF() for _ in range(2))
        self.norm = nn.RMSNorm(32, eps=1e-6)

    def forward(self, x, memory, pad):
        causal = torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)
        bias = self.bias(x.shape[1]) + causal
        for attn, cross, ff in zip(self.attn, self.cross, self.ff):
            x = ff(cross(attn(x, bias), pad, memory))
        return self.norm(x)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.encoder, self.decoder = Encoder(), Decoder()
        self.head = nn.Linear(32, 40, bias=False)
        self.head.weight = self.embed.weight

    def encode(self, source, keep):
        pad = torch.where(keep, 0.0, -1e9)[:, None, None, :]
        return self.encoder(self.embed(source), pad), pad

    def forward(self, source, keep, target):
        memory, pad = self.encode(source, keep)
        shifted = F.pad(target[:, :-1], (1, 0)).clamp(min=0)
        return self.head(self.decoder(self.embed(shifted), memory, pad))


def convert(sd):
    out = {"embed.weight": sd["shared.weight"], "head.weight": sd["lm_head.weight"]}
    for side in ("encoder", "decoder"):
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        out[f"{side}.bias.table.weight"] = sd[first]
        out[f"{side}.norm.weight"] = sd[f"{side}.final_layer_norm.weight"]
        for i in range(2):
            names = [("attn", "SelfAttention")] + [("cross", "EncDecAttention")] * (side == "decoder")
            for j, (ours, theirs) in enumerate(names):
                p, q = f"{side}.block.{i}.layer.{j}.", f"{side}.{ours}.{i}."
                out[q + "norm.weight"] = sd[p + "layer_norm.weight"]
                out[q + "q.weight"], out[q + "o.weight"] = sd[p + theirs + ".q.weight"], sd[p + theirs + ".o.weight"]
                out[q + "kv.weight"] = torch.cat([sd[p + theirs + ".k.weight"], sd[p + theirs + ".v.weight"]])
            p, q = f"{side}.block.{i}.layer.{len(names)}.", f"{side}.ff.{i}."
            out[q + "norm.weight"] = sd[p + "layer_norm.weight"]
            for ours, theirs in (("gate", "wi_0"), ("up", "wi_1"), ("down", "wo")):
                out[q + ours + ".weight"] = sd[p + f"DenseReluDense.{theirs}.weight"]
    return out


def make_batch(step):
    g = torch.Generator().manual_seed(900 + step)
    source = torch.randint(2, 40, (4, 14), generator=g)
    keep = torch.arange(14) < torch.tensor([14, 9, 12, 6])[:, None]
    target = torch.randint(2, 40, (4, 8), generator=g)
    target[1, 5:] = -100
    target[3, 6:] = -100
    return source * keep, keep, target


def main():
    model = Seq2Seq()
    model.load_state_dict(convert(torch.load("weights.pt")))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(3):
        source, keep, target = make_batch(step)
        logits = model(source, keep, target)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    source, keep, _ = make_batch(50)
    with torch.no_grad():
        encoded, _ = model.encode(source, keep)
    print(f"encoder rms {encoded[0].square().mean().sqrt().item():.9f} first {encoded[0, 0, 0].item():.9f}")


if __name__ == "__main__":
    main()
