"""Fine-tuning of a compact port of Cohere (Command-R): parallel block, rotary pairs as complex numbers."""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

VOCAB, DIM, INNER, LAYERS, HEADS, KV_HEADS, LOGIT_SCALE = 96, 32, 56, 2, 4, 2, 0.25


class ScaleNorm(nn.Module):
    """Layer norm with a weight and no bias; the weight may have an axis of heads."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight


def rotate(x, angles):
    """x [b, t, heads, k]; neighbouring channels are the real and the imaginary part"""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None, :]
    return torch.view_as_real(turned).flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = DIM // HEADS
        self.q = nn.Linear(DIM, HEADS * self.head_dim, bias=False)
        self.kv = nn.Linear(DIM, 2 * KV_HEADS * self.head_dim, bias=False)
        self.o = nn.Linear(HEADS * self.head_dim, DIM, bias=False)
        self.q_norm = ScaleNorm(HEADS, self.head_dim)
        self.k_norm = ScaleNorm(KV_HEADS, self.head_dim)

    def forward(self, x, angles):
        q = self.q_norm(self.q(x).unflatten(-1, (HEADS, -1)))
        k, v = self.kv(x).unflatten(-1, (2, KV_HEADS, -1)).unbind(-3)
        k = self.k_norm(k)
        q, k = rotate(q, angles), rotate(k, angles)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=2)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.head_dim**0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(DIM, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, DIM, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = ScaleNorm(DIM)
        self.attn = Attention()
        self.ff = FeedForward()

    def forward(self, x, angles):
        h = self.norm(x)
        return x + self.attn(h, angles) + self.ff(h)


class CommandR(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = ScaleNorm(DIM)

    def forward(self, tokens):
        k = DIM // HEADS
        frequencies = 500000.0 ** (-torch.arange(0, k, 2).float() / k)
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), frequencies)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, angles)
        return LOGIT_SCALE * F.linear(self.norm(x), self.embed.weight)


def from_checkpoint(path):
    old = load_file(path)
    new = {"embed.weight": old["model.embed_tokens.weight"], "norm.weight": old["model.norm.weight"]}
    for i in range(LAYERS):
        a, b = f"model.layers.{i}", f"blocks.{i}"
        new[f"{b}.norm.weight"] = old[f"{a}.input_layernorm.weight"]
        new[f"{b}.attn.q.weight"] = old[f"{a}.self_attn.q_proj.weight"]
        new[f"{b}.attn.kv.weight"] = torch.cat([old[f"{a}.self_attn.{n}_proj.weight"] for n in "kv"])
        new[f"{b}.attn.o.weight"] = old[f"{a}.self_attn.o_proj.weight"]
        new[f"{b}.attn.q_norm.weight"] = old[f"{a}.self_attn.q_norm.weight"]
        new[f"{b}.attn.k_norm.weight"] = old[f"{a}.self_attn.k_norm.weight"]
        new[f"{b}.ff.gate_up.weight"] = torch.cat([old[f"{a}.mlp.{n}_proj.weight"] for n in ("gate", "up")])
        new[f"{b}.ff.down.weight"] = old[f"{a}.mlp.down_proj.weight"]
    return new


model = CommandR()
model.load_state_dict(from_checkpoint("checkpoint/model.safetensors"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, eps=1e-6)
data = torch.Generator().manual_seed(1)
for step in range(3):
    tokens = torch.randint(3, VOCAB, (4, 14), generator=data)
    log_p = model(tokens)[:, :-1].log_softmax(dim=-1)
    loss = -log_p.gather(-1, tokens[:, 1:, None]).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
