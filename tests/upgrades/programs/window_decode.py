# Decoder with a ring buffer as key/value cache (the window's size), prompt in chunks, then token by token.
import torch
import torch.nn as nn
import torch.nn.functional as F


class Settings:
    vocab = 29
    dim = 16
    n_q = 4
    n_kv = 2
    depth = 2
    window = 5
    ffn = 32
    base = 100.0


class RingCache:
    def __init__(self, size, n_kv, head, batch):
        self.size = size
        self.k = torch.zeros(batch, size, n_kv, head)
        self.v = torch.zeros(batch, size, n_kv, head)
        self.pos = torch.full((size,), -1)

    def write(self, pos, k, v):
        slot = pos % self.size
        self.k[:, slot] = k
        self.v[:, slot] = v
        self.pos[slot] = pos


class Rope(nn.Module):
    def __init__(self, head, base):
        super().__init__()
        inv = base ** (-torch.arange(0, head, 2) / head)
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, x, pos):
        # x: (batch, time, heads, head) as complex numbers (first half real, second half imaginary)
        angle = pos[:, None].float() * self.inv
        turn = torch.polar(torch.ones_like(angle), angle)[None, :, None]
        re, im = x.chunk(2, dim=-1)
        z = torch.complex(re.contiguous(), im.contiguous()) * turn
        return torch.cat([z.real, z.imag], dim=-1)


class CachedAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.head = c, c.dim // c.n_q
        self.qkv = nn.Linear(c.dim, (c.n_q + 2 * c.n_kv) * self.head, bias=False)
        self.proj = nn.Linear(c.dim, c.dim, bias=False)
        self.rope = Rope(self.head, c.base)

    def forward(self, x, start, cache):
        c = self.c
        b, t, _ = x.shape
        pos = torch.arange(start, start + t)
        q, k, v = self.qkv(x).view(b, t, -1, self.head).split([c.n_q, c.n_kv, c.n_kv], dim=2)
        q, k = self.rope(q, pos), self.rope(k, pos)
        # old entries of the ring and the new ones, then mask by position
        keys = torch.cat([cache.k, k], 1)
        vals = torch.cat([cache.v, v], 1)
        kpos = torch.cat([cache.pos, pos])
        age = pos[:, None] - kpos[None, :]
        ok = (age >= 0) & (age < c.window) & (kpos >= 0)
        q = q.view(b, t, c.n_kv, c.n_q // c.n_kv, self.head)
        att = torch.einsum("btgrd,bsgd->bgrts", q, keys) * self.head**-0.5
        att = att.masked_fill(~ok, -1e9).softmax(-1)
        out = torch.einsum("bgrts,bsgd->btgrd", att, vals).reshape(b, t, c.dim)
        cache.write(pos, k, v)
        return self.proj(out)


class GLU(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w13 = nn.Linear(c.dim, 2 * c.ffn, bias=False)
        self.w2 = nn.Linear(c.ffn, c.dim, bias=False)

    def forward(self, x):
        g, u = self.w13(x).chunk(2, -1)
        return self.w2(u * F.silu(g))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.emb = nn.Parameter(torch.zeros(c.vocab, c.dim))
        self.norm_a = nn.ParameterList(torch.ones(c.dim) for _ in range(c.depth))
        self.norm_m = nn.ParameterList(torch.ones(c.dim) for _ in range(c.depth))
        self.attn = nn.ModuleList(CachedAttention(c) for _ in range(c.depth))
        self.mlp = nn.ModuleList(GLU(c) for _ in range(c.depth))
        self.norm = nn.Parameter(torch.ones(c.dim))

    def forward(self, ids, start, caches):
        x = self.emb[ids]
        for i, cache in enumerate(caches):
            x = x + self.attn[i](F.rms_norm(x, (self.c.dim,), self.norm_a[i], 1e-6), start, cache)
            x = x + self.mlp[i](F.rms_norm(x, (self.c.dim,), self.norm_m[i], 1e-6))
        return F.rms_norm(x[:, -1], (self.c.dim,), self.norm, 1e-6) @ self.emb.t()


def fill(model):
    g = torch.Generator().manual_seed(77)
    c, head = model.c, model.c.dim // model.c.n_q

    def mat(rows, cols):
        return torch.randn(rows, cols, generator=g) * (2.0 / cols**0.5)

    def vec():
        return torch.randn(c.dim, generator=g) * 0.3 + 1.0

    with torch.no_grad():
        model.emb.copy_(mat(c.vocab, c.dim))
        for i in range(c.depth):
            model.norm_a[i].copy_(vec())
            model.attn[i].qkv.weight.copy_(torch.cat([mat(n * head, c.dim) for n in (c.n_q, c.n_kv, c.n_kv)]))
            model.attn[i].proj.weight.copy_(mat(c.dim, c.dim))
            model.norm_m[i].copy_(vec())
            model.mlp[i].w13.weight.copy_(torch.cat([mat(c.ffn, c.dim), mat(c.ffn, c.dim)]))
            model.mlp[i].w2.weight.copy_(mat(c.dim, c.ffn))
        model.norm.copy_(vec())


def main():
    torch.set_grad_enabled(False)
    c = Settings()
    model = Decoder(c)
    fill(model)
    ids = torch.randint(0, c.vocab, (2, 9), generator=torch.Generator().manual_seed(1))
    caches = [RingCache(c.window, c.n_kv, c.dim // c.n_q, 2) for _ in range(c.depth)]
    start = 0
    for chunk in ids.split(4, dim=1):
        logits = model(chunk, start, caches)
        start += chunk.shape[1]
    total = torch.zeros(2)
    for _ in range(10):
        best, token = torch.log_softmax(logits, -1).max(-1)
        total += best
        ids = torch.cat([ids, token[:, None]], 1)
        print(f"token log-prob {best[0].item():.9f} {best[1].item():.9f}")
        logits = model(token[:, None], start, caches)
        start += 1
    print(f"scores {total[0].item():.9f} {total[1].item():.9f}")
    print("texts", ids.tolist())


if __name__ == "__main__":
    main()
