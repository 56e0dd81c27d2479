"""Serving side: a Qwen3 policy on flat packed tokens, fused projections and the residual beside the hidden state."""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

VOCAB, DIM, INNER, LAYERS, HEADS, KV_HEADS, HEAD, THETA = 100, 32, 48, 3, 4, 2, 12, 1000.0


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, residual=None):
        """With a residual: adds it first and returns the sum beside the normed sum."""
        if residual is not None:
            x = x + residual
            residual = x
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return x if residual is None else (x, residual)


class PackedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = [HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD]
        self.qkv_proj = nn.Linear(DIM, sum(self.sizes), bias=False)
        self.q_norm = RMSNorm(HEAD)
        self.k_norm = RMSNorm(HEAD)
        self.o_proj = nn.Linear(HEADS * HEAD, DIM, bias=False)

    def rotary(self, x, cos_sin):
        cos, sin = cos_sin
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def forward(self, x, cos_sin, bounds):
        q, k, v = self.qkv_proj(x).split(self.sizes, dim=-1)
        q = self.q_norm(q.view(-1, HEADS, HEAD))
        k = self.k_norm(k.view(-1, KV_HEADS, HEAD))
        q, k = self.rotary(q, cos_sin), self.rotary(k, cos_sin)
        v = v.view(-1, KV_HEADS, HEAD)
        out = torch.empty_like(q)
        for start, end in zip(bounds[:-1], bounds[1:]):
            one = F.scaled_dot_product_attention(
                q[start:end].transpose(0, 1),
                k[start:end].transpose(0, 1).repeat_interleave(HEADS // KV_HEADS, dim=0),
                v[start:end].transpose(0, 1).repeat_interleave(HEADS // KV_HEADS, dim=0),
                is_causal=True,
            )
            out[start:end] = one.transpose(0, 1)
        return self.o_proj(out.flatten(1))


class SiluAndMul(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Linear(DIM, 2 * INNER, bias=False)
        self.down_proj = nn.Linear(INNER, DIM, bias=False)

    def forward(self, x):
        both = self.gate_up_proj(x)
        return self.down_proj(F.silu(both[..., :INNER]) * both[..., INNER:])


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RMSNorm(DIM)
        self.self_attn = PackedAttention()
        self.post_attention_layernorm = RMSNorm(DIM)
        self.mlp = SiluAndMul()

    def forward(self, x, residual, cos_sin, bounds):
        if residual is None:
            residual = x
            x = self.input_layernorm(x)
        else:
            x, residual = self.input_layernorm(x, residual)
        x = self.self_attn(x, cos_sin, bounds)
        x, residual = self.post_attention_layernorm(x, residual)
        return self.mlp(x), residual


class Qwen3Server(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)

    def forward(self, tokens, positions, bounds):
        angles = positions[:, None] * THETA ** (-torch.arange(0, HEAD, 2) / HEAD)
        cos_sin = angles.cos()[:, None], angles.sin()[:, None]
        x, residual = self.embed_tokens(tokens), None
        for layer in self.layers:
            x, residual = layer(x, residual, cos_sin, bounds)
        x, _ = self.norm(x, residual)
        return x

    def prompt_logprobs(self, hidden, tokens, bounds):
        logits = hidden @ self.embed_tokens.weight.t()
        following = torch.roll(tokens, -1)
        log_p = torch.log_softmax(logits, dim=-1).gather(-1, following[:, None]).squeeze(-1)
        return [log_p[start : end - 1] for start, end in zip(bounds[:-1], bounds[1:])]


def load_weights(model, path):
    stacked = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj"}
    stacked["up_proj"] = "gate_up_proj"
    offsets = {"q_proj": 0, "k_proj": HEADS * HEAD, "v_proj": (HEADS + KV_HEADS) * HEAD, "gate_proj": 0}
    offsets["up_proj"] = INNER
    params = dict(model.named_parameters())
    for name, value in load_file(path).items():
        name = name.removeprefix("model.")
        for part, whole in stacked.items():
            if f".{part}." in name:
                target = params[name.replace(part, whole)]
                target.data[offsets[part] : offsets[part] + len(value)] = value
                break
        else:
            params[name].data.copy_(value)


def main():
    model = Qwen3Server()
    load_weights(model, "checkpoint/model.safetensors")
    g = torch.Generator().manual_seed(7)
    for call in range(3):
        lengths = torch.randint(5, 13, (4,), generator=g)
        table = torch.randint(1, VOCAB, (4, 13), generator=g)
        tokens = torch.cat([row[:n] for row, n in zip(table, lengths.tolist())])
        positions = torch.cat([torch.arange(n) for n in lengths.tolist()])
        bounds = [0, *lengths.cumsum(0).tolist()]
        with torch.inference_mode():
            hidden = model(tokens, positions, bounds)
            rows = model.prompt_logprobs(hidden, tokens, bounds)
        print(f"call {call} mean {torch.cat(rows).mean().item():.9f}")
        print(f"call {call} rows", " ".join(f"{row.sum().item():.7f}" for row in rows))


if __name__ == "__main__":
    main()
