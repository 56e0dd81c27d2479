"""Serving side: chunked prefill and decoding over ring buffers of the last keys; scores given responses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 71
DIM = 48
HEADS = 6
KV_HEADS = 2
HEAD_DIM = 8
WINDOW = 8
CAP = 15.0
CHUNK = 6
MAX_LEN = 64


class RingCache:
    """The last `size` keys and values of one request; slot = position % size."""

    def __init__(self, size):
        self.size = size
        self.seen = 0
        self.keys = torch.zeros(KV_HEADS, size, HEAD_DIM)
        self.values = torch.zeros(KV_HEADS, size, HEAD_DIM)
        self.positions = torch.full((size,), -1)

    def store(self, keys, values, positions):
        keep = min(self.size, positions.numel())
        positions = positions[-keep:]
        slots = positions % self.size
        self.keys[:, slots] = keys[:, -keep:]
        self.values[:, slots] = values[:, -keep:]
        self.positions[slots] = positions
        self.seen = int(positions[-1]) + 1


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(variance + 1e-6) * (1.0 + self.weight)


def rope_table():
    half = HEAD_DIM // 2
    freqs = 1000.0 ** (-torch.arange(half).float() / half)
    angles = torch.arange(MAX_LEN).float()[:, None] * freqs
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def apply_rope(x, table, positions):
    """x is [heads, tokens, HEAD_DIM]."""
    cos, sin = table[positions].chunk(2, dim=-1)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class RingAttention(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window
        self.qkv = nn.Linear(DIM, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.out = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
        self.q_norm = RMSNorm(HEAD_DIM)
        self.k_norm = RMSNorm(HEAD_DIM)
        self.register_buffer("table", rope_table(), persistent=False)

    def forward(self, x, cache):
        t = x.shape[0]
        q, k, v = self.qkv(x).view(t, -1, HEAD_DIM).transpose(0, 1).split([HEADS, KV_HEADS, KV_HEADS])
        positions = cache.seen + torch.arange(t)
        q = apply_rope(self.q_norm(q), self.table, positions)
        k = apply_rope(self.k_norm(k), self.table, positions)

        keys = torch.cat([cache.keys, k], dim=1)
        values = torch.cat([cache.values, v], dim=1)
        key_positions = torch.cat([cache.positions, positions])
        cache.store(k, v, positions)

        grouped = q.view(KV_HEADS, HEADS // KV_HEADS, t, HEAD_DIM)
        scores = torch.einsum("kgtd,ksd->kgts", grouped, keys) * HEAD_DIM**-0.5
        scores = CAP * torch.tanh(scores / CAP)
        gap = positions[:, None] - key_positions[None, :]
        visible = (key_positions >= 0) & (gap >= 0) & (gap < self.window)
        probs = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
        y = torch.einsum("kgts,ksd->tkgd", probs, values)
        return self.out(y.reshape(t, -1))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(DIM, 4 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class Layer(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.pre_attn = RMSNorm(DIM)
        self.attn = RingAttention(window)
        self.post_attn = RMSNorm(DIM)
        self.pre_mlp = RMSNorm(DIM)
        self.mlp = MLP()
        self.post_mlp = RMSNorm(DIM)

    def forward(self, x, cache):
        h = self.attn(self.pre_attn(x), cache)
        x = x + self.post_attn(h)
        h = self.mlp(self.pre_mlp(x))
        return x + self.post_mlp(h)


class ServedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList([Layer(WINDOW), Layer(1000), Layer(WINDOW)])
        self.norm = RMSNorm(DIM)

    def new_caches(self):
        return [RingCache(min(layer.attn.window, MAX_LEN)) for layer in self.layers]

    def forward(self, tokens, caches):
        x = self.embed(tokens) * DIM**0.5
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return F.linear(self.norm(x[-1:]), self.embed.weight)[0]


def load_trainer_weights(model, path):
    state = torch.load(path, weights_only=True)
    mapped = {}
    for name, value in state.items():
        if name.endswith("attn.q_proj.weight"):
            base = name[: -len("q_proj.weight")]
            parts = [state[base + f"{p}_proj.weight"] for p in "qkv"]
            mapped[base + "qkv.weight"] = torch.cat(parts)
        elif name.endswith("attn.o_proj.weight"):
            mapped[name.replace("o_proj", "out")] = value
        elif name.endswith("mlp.gate.weight"):
            up = state[name.replace("gate", "up")]
            mapped[name.replace("gate", "gate_up")] = torch.cat([value, up])
        elif "k_proj" in name or "v_proj" in name or "mlp.up" in name:
            continue
        else:
            mapped[name] = value
    model.load_state_dict(mapped)


def conversations():
    gen = torch.Generator().manual_seed(72)
    out = []
    for prompt_len, response_len in [(13, 9), (5, 14), (20, 7), (9, 11)]:
        prompt = torch.randint(1, VOCAB, (prompt_len,), generator=gen).tolist()
        response = torch.randint(1, VOCAB, (response_len,), generator=gen).tolist()
        out.append((prompt, response))
    return out


def score(model, prompt, response):
    caches = model.new_caches()
    for start in range(0, len(prompt), CHUNK):
        logits = model(torch.tensor(prompt[start : start + CHUNK]), caches)
    logps = []
    for token in response:
        logps.append(torch.log_softmax(logits, dim=-1)[token])
        logits = model(torch.tensor([token]), caches)
    return torch.stack(logps)


@torch.no_grad()
def main():
    torch.manual_seed(71)
    model = ServedModel()
    load_trainer_weights(model, "weights.pt")
    for i, (prompt, response) in enumerate(conversations()):
        logp = score(model, prompt, response)
        print(f"request {i} sum {logp.sum().item():.5f} last {logp[-1].item():.5f}")


if __name__ == "__main__":
    main()
