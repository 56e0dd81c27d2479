"""Serving a retentive network: the prompt is prefilled in chunks, then tokens are fed one by one."""

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class RetentionState:
    memory: dict = field(default_factory=dict)


class ChunkedRetention(nn.Module):
    def __init__(self, index, dim, heads, chunk):
        super().__init__()
        self.index, self.heads, self.chunk, self.hd = index, heads, chunk, dim // heads
        self.proj = nn.Linear(dim, 4 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gn_weight = nn.Parameter(torch.ones(dim))
        self.gn_bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("log_gamma", torch.log1p(-(0.5 ** (1.0 + torch.arange(heads)))), persistent=False)

    def forward(self, x, state):
        b, n, d = x.shape
        q, k, v, gate = self.proj(x).view(b, n, 4, self.heads, self.hd).unbind(2)
        q = q * self.hd**-0.5
        memory = state.memory.get(self.index)
        if memory is None:
            memory = x.new_zeros(b, self.heads, self.hd, self.hd)
        i = torch.arange(n)
        gap = i[:, None] - i
        inner = torch.exp(self.log_gamma[:, None, None] * gap).tril()
        score = torch.einsum("bihd,bjhd->bhij", q, k) * inner
        y = torch.einsum("bhij,bjhd->bihd", score, v)
        carry = torch.exp(self.log_gamma * (i[:, None] + 1))
        y = y + torch.einsum("bihd,bhde->bihe", q, memory) * carry[None, :, :, None]
        left = torch.exp(self.log_gamma * (n - 1 - i)[:, None])
        fresh = torch.einsum("bjhd,jh,bjhe->bhde", k, left, v)
        kept = torch.exp(self.log_gamma * n)[:, None, None]
        state.memory[self.index] = memory * kept + fresh
        mean = y.mean(-1, keepdim=True)
        var = y.var(-1, unbiased=False, keepdim=True)
        y = ((y - mean) / torch.sqrt(var + 1e-5)).reshape(b, n, d)
        y = y * self.gn_weight + self.gn_bias
        return self.out(F.silu(gate.reshape(b, n, d)) * y)


class ServedLayer(nn.Module):
    def __init__(self, index, dim, heads, chunk):
        super().__init__()
        self.pre, self.mid = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.retention = ChunkedRetention(index, dim, heads, chunk)
        self.fc_in, self.fc_out = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, state):
        x = x + self.retention(self.pre(x), state)
        return x + self.fc_out(self.fc_in(self.mid(x)).relu())


class Server(nn.Module):
    def __init__(self, chunk=5):
        super().__init__()
        self.chunk = chunk
        self.table = nn.Parameter(torch.zeros(32, 32))
        self.stack = nn.ModuleList(ServedLayer(i, 32, 4, chunk) for i in range(2))
        self.last = nn.LayerNorm(32)

    def forward(self, ids, state):
        x = self.table[ids]
        for layer in self.stack:
            x = layer(x, state)
        return (self.last(x) * 32**-0.5 @ self.table.T).log_softmax(-1)


def load(server, sd):
    names = {"ln1": "pre", "ln2": "mid", "ffn.0": "fc_in", "ffn.2": "fc_out", "retention.o": "retention.out"}
    out = {"table": sd["emb.weight"], "last.weight": sd["final.weight"], "last.bias": sd["final.bias"]}
    for i in range(2):
        src, dst = f"layers.{i}.", f"stack.{i}."
        for old, new, leaf in ((*both, leaf) for both in names.items() for leaf in ("weight", "bias")):
            if src + f"{old}.{leaf}" in sd:
                out[dst + f"{new}.{leaf}"] = sd[src + f"{old}.{leaf}"]
        out[dst + "retention.proj.weight"] = torch.cat([sd[f"{src}retention.{c}.weight"] for c in "qkvg"])
        out[dst + "retention.gn_weight"] = sd[src + "retention.norm.weight"]
        out[dst + "retention.gn_bias"] = sd[src + "retention.norm.bias"]
    server.load_state_dict(out)


@torch.inference_mode()
def main():
    server = Server()
    load(server, torch.load("weights.pt"))
    ids = torch.randint(0, 32, (2, 22), generator=torch.Generator().manual_seed(5))
    prompt = 13
    state = RetentionState()
    parts = [server(c, state) for c in ids[:, :prompt].split(server.chunk, dim=1)]
    parts += [server(ids[:, t : t + 1], state) for t in range(prompt, ids.shape[1] - 1)]
    logp = torch.cat(parts, dim=1)
    picked = logp.gather(-1, ids[:, 1:, None])[..., 0]
    print(f"prompt logp {picked[:, :prompt].mean().item():.9f}")
    for i, row in enumerate(picked):
        print(f"sample {i}: completion logp {row[prompt:].sum().item():.9f}")
    print(f"entropy {torch.special.entr(logp[:, prompt:].exp()).sum(-1).mean().item():.9f}")


if __name__ == "__main__":
    main()
