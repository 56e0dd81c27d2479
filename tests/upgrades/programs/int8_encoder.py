"""Sentence encoder with int8 weights (asymmetric, one scale and zero point per output row) and cached embeddings."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, WIDTH, N_HEAD, FFN, OUT, MAXLEN = 60, 32, 4, 64, 24, 16


class Q8Linear(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        lo = weight.amin(1, keepdim=True).clamp(max=0)
        hi = weight.amax(1, keepdim=True).clamp(min=0)
        scale = (hi - lo) / 255
        zero = torch.round(-128 - lo / scale)
        self.register_buffer("q", torch.round(weight / scale + zero).clamp(-128, 127).to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)
        self.register_buffer("bias", bias)

    def forward(self, x):
        w = (self.q.float() - self.zero) * self.scale
        return F.linear(x, w, self.bias)


class Attention(nn.Module):
    def __init__(self, w, prefix):
        super().__init__()
        wq, wk, wv = w[prefix + "in_proj_weight"].chunk(3)
        bq, bk, bv = w[prefix + "in_proj_bias"].chunk(3)
        self.q, self.k, self.v = Q8Linear(wq, bq), Q8Linear(wk, bk), Q8Linear(wv, bv)
        self.o = Q8Linear(w[prefix + "out_proj.weight"], w[prefix + "out_proj.bias"])

    def forward(self, x, real):
        split = lambda y: y.unflatten(-1, (N_HEAD, -1)).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = q @ k.mT / (WIDTH // N_HEAD) ** 0.5
        scores = scores + (1.0 - real[:, None, None].float()) * -1e4
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, w, prefix):
        super().__init__()
        self.attn = Attention(w, prefix + "mha.")
        self.up = Q8Linear(w[prefix + "fc1.weight"], w[prefix + "fc1.bias"])
        self.down = Q8Linear(w[prefix + "fc2.weight"], w[prefix + "fc2.bias"])
        self.ln = nn.ParameterDict({
            k.replace(".", "_"): w[prefix + k] for k in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
        })

    def forward(self, x, real):
        x = F.layer_norm(x + self.attn(x, real), (WIDTH,), self.ln["norm1_weight"], self.ln["norm1_bias"])
        y = self.down(F.gelu(self.up(x)))
        return F.layer_norm(x + y, (WIDTH,), self.ln["norm2_weight"], self.ln["norm2_bias"])


class Encoder(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.tok = nn.Embedding.from_pretrained(w["tok.weight"])
        self.pos = nn.Embedding.from_pretrained(w["pos.weight"])
        self.layers = nn.ModuleList(Layer(w, f"layers.{i}.") for i in range(2))
        self.proj = Q8Linear(w["proj.weight"], w["proj.bias"])

    def forward(self, ids):
        real = ids != 0
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, real)
        mean = torch.einsum("btd,bt->bd", x, real.float()) / real.sum(1, keepdim=True)
        out = self.proj(mean).tanh()
        return out / out.norm(dim=1, keepdim=True)


def float_weights():
    shapes = {
        "tok.weight": (VOCAB, WIDTH),
        "pos.weight": (MAXLEN, WIDTH),
        "proj.weight": (OUT, WIDTH),
        "proj.bias": (OUT,),
    }
    for i in range(2):
        p = f"layers.{i}."
        shapes |= {
            p + "mha.in_proj_weight": (3 * WIDTH, WIDTH),
            p + "mha.in_proj_bias": (3 * WIDTH,),
            p + "mha.out_proj.weight": (WIDTH, WIDTH),
            p + "mha.out_proj.bias": (WIDTH,),
            p + "fc1.weight": (FFN, WIDTH),
            p + "fc1.bias": (FFN,),
            p + "fc2.weight": (WIDTH, FFN),
            p + "fc2.bias": (WIDTH,),
        }
        for n in ("norm1", "norm2"):
            shapes |= {p + n + ".weight": (WIDTH,), p + n + ".bias": (WIDTH,)}
    g = torch.Generator().manual_seed(31)
    w = {}
    for name in sorted(shapes):
        noise = torch.randn(shapes[name], generator=g)
        if noise.dim() == 2:
            w[name] = noise * (1.5 / noise.shape[1] ** 0.5) + 0.05
        else:
            w[name] = noise * 0.1 + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
    return w


def sentences(seed, n):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCAB, (n, 10), generator=g)
    lengths = torch.randint(2, 11, (n,), generator=g)
    return ids * (torch.arange(10)[None] < lengths[:, None])


def main():
    torch.set_grad_enabled(False)
    model = Encoder(float_weights())
    cache = [model(part) for part in sentences(1, 12).split(5)]
    sims = model(sentences(2, 3)) @ torch.cat(cache).t()
    for i, row in enumerate(sims.tolist()):
        print(f"query {i}: best {max(row):.9f} first {row[0]:.9f} last {row[-1]:.9f}")
    loss = F.cross_entropy(sims / 0.2, torch.tensor([4, 7, 0]))
    print(f"retrieval loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
