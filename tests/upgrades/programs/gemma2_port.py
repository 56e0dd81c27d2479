import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Spec:
    vocab: int = 48
    width: int = 32
    hidden: int = 56
    depth: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    window: int = 5
    query_scalar: float = 16.0
    attn_cap: float = 5.0
    final_cap: float = 8.0


def softcap(x, cap):
    return torch.tanh(x / cap) * cap


class OffsetRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return nn.functional.rms_norm(x, x.shape[-1:], 1 + self.offset, eps=1e-6)


class Rope(nn.Module):
    def __init__(self, dim, base=10000.0, longest=64):
        super().__init__()
        angles = torch.outer(torch.arange(longest).float(), base ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("phase", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, x):
        # (batch, time, heads, dim): the halves are real and imaginary parts
        re, im = x.chunk(2, dim=-1)
        z = torch.complex(re, im) * self.phase[: x.shape[1], None]
        return torch.cat([z.real, z.imag], dim=-1)


class GroupedAttention(nn.Module):
    def __init__(self, s, local):
        super().__init__()
        self.s, self.local = s, local
        self.wq = nn.Parameter(torch.zeros(s.kv_heads, s.heads // s.kv_heads, s.head_dim, s.width))
        self.wkv = nn.Parameter(torch.zeros(2, s.kv_heads, s.head_dim, s.width))
        self.wo = nn.Parameter(torch.zeros(s.width, s.kv_heads, s.heads // s.kv_heads, s.head_dim))
        self.rope = Rope(s.head_dim)

    def allowed(self, t):
        i = torch.arange(t)
        back = i[:, None] - i[None, :]
        ok = back >= 0
        if self.local:
            ok = ok & (back < self.s.window)
        return ok

    def forward(self, x):
        q = torch.einsum("btw,kgdw->btkgd", x, self.wq)
        k, v = torch.einsum("btw,nkdw->nbtkd", x, self.wkv)
        q = self.rope(q.flatten(2, 3)).unflatten(2, q.shape[2:4])
        k = self.rope(k)
        logits = torch.einsum("bikgd,bjkd->bkgij", q, k) / math.sqrt(self.s.query_scalar)
        logits = softcap(logits, self.s.attn_cap)
        probs = logits.masked_fill(~self.allowed(x.shape[1]), -1e30).softmax(dim=-1)
        mixed = torch.einsum("bkgij,bjkd->bikgd", probs, v)
        return torch.einsum("bikgd,wkgd->biw", mixed, self.wo)


class GeGLU(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.gate_up = nn.Linear(s.width, 2 * s.hidden, bias=False)
        self.down = nn.Linear(s.hidden, s.width, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(nn.functional.gelu(gate, approximate="tanh") * up)


class Sandwich(nn.Module):
    """x + post(f(pre(x)))"""

    def __init__(self, s, inner):
        super().__init__()
        self.pre, self.inner, self.post = OffsetRMSNorm(s.width), inner, OffsetRMSNorm(s.width)

    def forward(self, x):
        return x + self.post(self.inner(self.pre(x)))


class Gemma(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.table = nn.Parameter(torch.zeros(s.vocab, s.width))
        self.trunk = nn.ModuleList()
        for i in range(s.depth):
            self.trunk.append(Sandwich(s, GroupedAttention(s, local=i % 2 == 0)))
            self.trunk.append(Sandwich(s, GeGLU(s)))
        self.norm = OffsetRMSNorm(s.width)

    def forward(self, ids):
        x = self.table[ids] * math.sqrt(self.s.width)
        for part in self.trunk:
            x = part(x)
        return softcap(self.norm(x) @ self.table.T, self.s.final_cap)


@torch.no_grad()
def load(model, sd):
    s = model.s
    sd = {k.removeprefix("model."): v for k, v in sd.items()}
    model.table.copy_(sd["embed_tokens.weight"])
    model.norm.offset.copy_(sd["norm.weight"])
    for i in range(s.depth):
        p = f"layers.{i}."
        attn, mlp = model.trunk[2 * i], model.trunk[2 * i + 1]
        attn.pre.offset.copy_(sd[p + "input_layernorm.weight"])
        attn.post.offset.copy_(sd[p + "post_attention_layernorm.weight"])
        mlp.pre.offset.copy_(sd[p + "pre_feedforward_layernorm.weight"])
        mlp.post.offset.copy_(sd[p + "post_feedforward_layernorm.weight"])
        attn.inner.wq.copy_(sd[p + "self_attn.q_proj.weight"].view_as(attn.inner.wq))
        for n, name in enumerate(("k_proj", "v_proj")):
            attn.inner.wkv[n] = sd[p + f"self_attn.{name}.weight"].view(s.kv_heads, s.head_dim, s.width)
        attn.inner.wo.copy_(sd[p + "self_attn.o_proj.weight"].view_as(attn.inner.wo))
        mlp.inner.gate_up.weight.copy_(torch.cat([sd[p + "mlp.gate_proj.weight"], sd[p + "mlp.up_proj.weight"]]))
        mlp.inner.down.weight.copy_(sd[p + "mlp.down_proj.weight"])


@torch.no_grad()
def main():
    model = Gemma(Spec())
    load(model, torch.load("weights.pt"))
    rng = torch.Generator().manual_seed(31)
    text = torch.randint(0, 48, (2, 16), generator=rng)
    logits = model(text)
    nll = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), text[:, 1:])
    print(f"nll {nll.item():.9f} logit {logits[1, -1, 3].item():.9f}")
    for n in range(2):
        ids = torch.randint(0, 48, (1, 7), generator=rng)
        total = 0.0
        for _ in range(5):
            logp = model(ids)[0, -1].log_softmax(-1)
            best, token = logp.max(dim=-1)
            total += best.item()
            ids = torch.cat([ids, token.view(1, 1)], dim=1)
        print(f"continuation {n}: {ids[0, 7:].tolist()} logp {total:.9f}")


if __name__ == "__main__":
    main()
