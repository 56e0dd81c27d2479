"""Trainer side: log-probabilities of given responses by one full forward over the padded batch."""

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


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), eps=1e-6) * (1.0 + self.weight)


def apply_rope(x, positions):
    half = x.shape[-1] // 2
    freqs = 1000.0 ** (-torch.arange(half).float() / half)
    angles = positions[..., None].float() * freqs
    cos = angles.cos()
    sin = angles.sin()
    a, b = x.split(half, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window
        self.q_proj = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
        self.q_norm = RMSNorm(HEAD_DIM)
        self.k_norm = RMSNorm(HEAD_DIM)

    def forward(self, x):
        b, t, _ = x.shape
        positions = torch.arange(t)
        q = self.q_norm(self.q_proj(x).view(b, t, HEADS, HEAD_DIM)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, t, KV_HEADS, HEAD_DIM)).transpose(1, 2)
        v = self.v_proj(x).view(b, t, KV_HEADS, HEAD_DIM).transpose(1, 2)
        q = apply_rope(q, positions)
        k = apply_rope(k, positions)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        scores = q @ k.transpose(-1, -2) * HEAD_DIM**-0.5
        scores = CAP * torch.tanh(scores / CAP)
        gap = positions[:, None] - positions[None, :]
        visible = (gap >= 0) & (gap < self.window)
        probs = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
        y = (probs @ v).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(y)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class Layer(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.pre_attn = RMSNorm(DIM)
        self.attn = Attention(window)
        self.post_attn = RMSNorm(DIM)
        self.pre_mlp = RMSNorm(DIM)
        self.mlp = MLP()
        self.post_mlp = RMSNorm(DIM)

    def forward(self, x):
        x = x + self.post_attn(self.attn(self.pre_attn(x)))
        return x + self.post_mlp(self.mlp(self.pre_mlp(x)))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList([Layer(WINDOW), Layer(1000), Layer(WINDOW)])
        self.norm = RMSNorm(DIM)

    def forward(self, tokens):
        x = self.embed(tokens) * DIM**0.5
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.T


def build():
    torch.manual_seed(71)
    model = Policy()
    with torch.no_grad():
        model.embed.weight.mul_(0.2)
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.normal_(0.0, 0.2)
            elif "_proj" in name:
                p.mul_(2.0)
    return model


def conversations():
    gen = torch.Generator().manual_seed(72)
    out = []
    for prompt_len, response_len in [(13, 9), (5, 14), (20, 7), (9, 11)]:
        prompt = torch.randint(1, VOCAB, (prompt_len,), generator=gen).tolist()
        response = torch.randint(1, VOCAB, (response_len,), generator=gen).tolist()
        out.append((prompt, response))
    return out


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    data = conversations()
    longest = max(len(p) + len(r) for p, r in data)
    tokens = torch.zeros(len(data), longest, dtype=torch.long)
    response_mask = torch.zeros(len(data), longest, dtype=torch.bool)
    for i, (p, r) in enumerate(data):
        tokens[i, : len(p) + len(r)] = torch.tensor(p + r)
        response_mask[i, len(p) : len(p) + len(r)] = True
    logits = model(tokens)[:, :-1]
    logp = torch.log_softmax(logits, dim=-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    logp = logp * response_mask[:, 1:]
    for i, (p, r) in enumerate(data):
        print(f"request {i} sum {logp[i].sum().item():.5f} last {logp[i, len(p) + len(r) - 2].item():.5f}")


if __name__ == "__main__":
    main()
