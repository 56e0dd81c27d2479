import math

import torch
from torch import nn
from torch.nn import functional as F


class FusedQKV(nn.Module):
    """One product for q, k and v; the low-rank updates are folded into the weight before it."""

    def __init__(self, d, ranks, alpha):
        super().__init__()
        self.d, self.alpha = d, alpha
        self.register_buffer("weight", torch.zeros(3 * d, d))
        self.register_buffer("bias", torch.zeros(3 * d))
        self.down = nn.ParameterDict({n: nn.Parameter(torch.zeros(r, d)) for n, r in ranks.items()})
        self.up = nn.ParameterDict({n: nn.Parameter(torch.zeros(d, r)) for n, r in ranks.items()})

    def merged(self):
        rows = dict(zip("qkv", self.weight.split(self.d)))
        for name in self.down:
            a, b = self.down[name], self.up[name]
            rows[name] = rows[name] + (self.alpha / a.shape[0]) * (b @ a)
        return torch.cat([rows[n] for n in "qkv"])

    def forward(self, x):
        return F.linear(x, self.merged(), self.bias)


class CausalAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = FusedQKV(d, {"q": 4, "v": 8}, alpha=8)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in self.qkv(x).chunk(3, dim=-1))
        att = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        att = att.masked_fill(future, -torch.inf).softmax(dim=-1)
        return self.out(torch.einsum("bhij,bjhd->bihd", att, v).flatten(2))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln_attn, self.ln_mlp = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = CausalAttention(d, heads)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attn(self.ln_attn(x))
        return x + self.fc2(gelu_tanh(self.fc1(self.ln_mlp(x))))


class LM(nn.Module):
    def __init__(self, vocab=33, d=24):
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(vocab, d))
        self.positions = nn.Parameter(torch.zeros(16, d))
        self.layers = nn.Sequential(Layer(d, 3), Layer(d, 3))
        self.final = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.tokens[ids] + self.positions[: ids.shape[1]]
        return F.linear(self.final(self.layers(x)), self.tokens)


def from_peft(sd):
    out = {
        "tokens": sd["wte.weight"],
        "positions": sd["wpe.weight"],
        "final.weight": sd["ln_f.weight"],
        "final.bias": sd["ln_f.bias"],
    }
    pairs = {"ln1": "ln_attn", "ln2": "ln_mlp", "attn.o": "attn.out", "up": "fc1", "down": "fc2"}
    for i in range(2):
        for leaf in ("weight", "bias"):
            for old, new in pairs.items():
                out[f"layers.{i}.{new}.{leaf}"] = sd[f"h.{i}.{old}.{leaf}"]
            out[f"layers.{i}.attn.qkv.{leaf}"] = torch.cat([
                sd[f"h.{i}.attn.{n}.{leaf}"] for n in ("q.base", "k", "v.base")
            ])
        for n in "qv":
            out[f"layers.{i}.attn.qkv.down.{n}"] = sd[f"h.{i}.attn.{n}.lora_A.weight"]
            out[f"layers.{i}.attn.qkv.up.{n}"] = sd[f"h.{i}.attn.{n}.lora_B.weight"]
    return out


def main():
    model = LM()
    model.load_state_dict(from_peft(torch.load("weights.pt")))
    model.requires_grad_(False)
    adapters = [p for m in model.modules() if isinstance(m, FusedQKV) for p in m.parameters()]
    for p in adapters:
        p.requires_grad_(True)
    opt = torch.optim.Adam(adapters, lr=0.01)
    g = torch.Generator().manual_seed(9)
    for step in range(3):
        ids = torch.randint(0, 33, (4, 12), generator=g)
        logp = model(ids[:, :-1]).log_softmax(-1)
        loss = -logp.gather(-1, ids[:, 1:, None]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
