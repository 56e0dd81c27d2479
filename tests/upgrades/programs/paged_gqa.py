"""Rollout engine: continuous batching over a paged key/value cache, one token per running sequence a step."""

import math

import torch
from torch import nn

PAGE = 4


class PageTable:
    def __init__(self, n_pages):
        g = torch.Generator().manual_seed(11)
        self.free = torch.randperm(n_pages, generator=g).tolist()
        self.tables, self.lengths = {}, {}

    def append(self, seq):
        """Reserve a slot for the next token of a sequence: (page, offset)."""
        n = self.lengths.get(seq, 0)
        table = self.tables.setdefault(seq, [])
        if n % PAGE == 0:
            table.append(self.free.pop())
        self.lengths[seq] = n + 1
        return table[n // PAGE], n % PAGE

    def view(self, seqs):
        width = max(len(self.tables[s]) for s in seqs)
        pages = torch.zeros(len(seqs), width, dtype=torch.long)
        for row, s in enumerate(seqs):
            pages[row, : len(self.tables[s])] = torch.tensor(self.tables[s])
        return pages, torch.tensor([self.lengths[s] for s in seqs])


class PagedAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, n_pages):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.qkv = nn.Linear(dim, (heads + 2 * kv_heads) * self.hd, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.register_buffer("k_pages", torch.zeros(n_pages, PAGE, kv_heads, self.hd), persistent=False)
        self.register_buffer("v_pages", torch.zeros(n_pages, PAGE, kv_heads, self.hd), persistent=False)

    def rotate(self, x, pos):
        half = self.hd // 2
        theta = pos[:, None, None] / 10000.0 ** (torch.arange(half) / half)
        re, im = x[..., :half], x[..., half:]
        c, s = theta.cos(), theta.sin()
        return torch.cat([re * c - im * s, im * c + re * s], dim=-1)

    def forward(self, x, slots, pages, lengths):
        n = x.shape[0]
        sizes = [self.heads * self.hd, self.kv_heads * self.hd, self.kv_heads * self.hd]
        q, k, v = (t.view(n, -1, self.hd) for t in self.qkv(x).split(sizes, dim=-1))
        pos = lengths - 1
        q, k = self.rotate(q, pos), self.rotate(k, pos)
        self.k_pages[slots[:, 0], slots[:, 1]] = k
        self.v_pages[slots[:, 0], slots[:, 1]] = v
        keys = self.k_pages[pages].flatten(1, 2)
        values = self.v_pages[pages].flatten(1, 2)
        valid = torch.arange(keys.shape[1]) < lengths[:, None]
        q = q.view(n, self.kv_heads, self.heads // self.kv_heads, self.hd)
        score = torch.einsum("nkgd,nskd->nkgs", q, keys) / math.sqrt(self.hd)
        prob = score.masked_fill(~valid[:, None, None], float("-inf")).softmax(-1)
        return self.out(torch.einsum("nkgs,nskd->nkgd", prob, values).reshape(n, -1))


class Layer(nn.Module):
    def __init__(self, dim, n_pages):
        super().__init__()
        self.norm_a = nn.RMSNorm(dim, eps=1e-6)
        self.attn = PagedAttention(dim, 4, 2, n_pages)
        self.norm_m = nn.RMSNorm(dim, eps=1e-6)
        self.gate_up = nn.Linear(dim, 96, bias=False)
        self.down = nn.Linear(48, dim, bias=False)

    def forward(self, x, *cache):
        x = x + self.attn(self.norm_a(x), *cache)
        gate, up = self.gate_up(self.norm_m(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


class Engine(nn.Module):
    def __init__(self, dim=32, vocab=40, n_pages=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, n_pages) for _ in range(2))
        self.norm = nn.RMSNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens, slots, pages, lengths):
        x = self.wte(tokens)
        for layer in self.layers:
            x = layer(x, slots, pages, lengths)
        return self.head(self.norm(x)).log_softmax(-1)


def load(engine, sd):
    new = {"wte.weight": sd["embed.weight"], "norm.weight": sd["norm.weight"], "head.weight": sd["lm_head.weight"]}
    for i in range(2):
        p = f"layers.{i}."
        new[p + "attn.qkv.weight"] = torch.cat([sd[f"{p}attn.{n}_proj.weight"] for n in "qkv"])
        new[p + "attn.out.weight"] = sd[p + "attn.o_proj.weight"]
        new[p + "gate_up.weight"] = torch.cat([sd[p + "gate.weight"], sd[p + "up.weight"]])
        new[p + "down.weight"] = sd[p + "down.weight"]
        new[p + "norm_a.weight"], new[p + "norm_m.weight"] = sd[p + "ln1.weight"], sd[p + "ln2.weight"]
    engine.load_state_dict(new)


@torch.no_grad()
def main():
    engine = Engine()
    load(engine, torch.load("weights.pt"))
    g = torch.Generator().manual_seed(3)
    shapes = [(5, 8), (9, 6), (3, 10)]
    seqs = [torch.randint(0, 40, (a + b,), generator=g) for a, b in shapes]
    table = PageTable(16)
    logps = [[] for _ in seqs]
    for t in range(max(map(len, seqs)) - 1):
        running = [s for s in range(len(seqs)) if t < len(seqs[s]) - 1]
        slots = torch.tensor([table.append(s) for s in running])
        pages, lengths = table.view(running)
        out = engine(torch.stack([seqs[s][t] for s in running]), slots, pages, lengths)
        for row, s in enumerate(running):
            if t + 1 >= shapes[s][0]:
                logps[s].append(out[row, seqs[s][t + 1]])
    for s, values in enumerate(logps):
        values = torch.stack(values)
        print(f"rollout {s}: sum {values.sum().item():.9f} last {values[-1].item():.9f}")


if __name__ == "__main__":
    main()
