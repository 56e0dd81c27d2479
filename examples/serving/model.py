"""A small real decoder over bytes, and the faults that can be planted into it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, BLOCKS, CONTEXT = 256, 64, 4, 3, 128


class RMSNorm(nn.Module):
    """Scales each position to root mean square 1, then by a learned weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, positions, width = x.shape
        parts = self.qkv_proj(x).view(batch, positions, 3 * self.heads, -1).transpose(1, 2)
        query, key, value = parts.chunk(3, dim=1)
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
        future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.o_proj(torch.matmul(weights, value).transpose(1, 2).reshape(batch, positions, width))


class MLP(nn.Module):
    """Gated two-layer network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(width, 8 * width, bias=False)
        self.down_proj = nn.Linear(4 * width, width, bias=False)
        self.slope = 1.0

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate * self.slope) * up)


class DecoderLayer(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(width)
        self.self_attn = Attention(width, heads)
        self.post_attention_layernorm = RMSNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Predicts the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.embed_positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(DecoderLayer(WIDTH, HEADS) for _ in range(BLOCKS))
        self.norm = RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (batch, positions) as int64; returns logits (batch, positions, vocabulary)."""
        x = self.embed_tokens(tokens) + self.embed_positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


@dataclass(frozen=True, slots=True)
class Fault:
    """``module.attribute`` is set to ``value``; ``operation`` is the call in which it shows first."""

    module: str
    attribute: str
    value: float
    operation: str
    story: str


FAULTS = {
    "scale": Fault("layers.1.self_attn", "scale", 1.0, "Tensor.__mul__", "a kernel forgets to scale the scores"),
    "epsilon": Fault("layers.2.input_layernorm", "eps", 1e-2, "Tensor.__add__", "a kernel with another epsilon"),
}


def build(fault: str | None = None) -> Decoder:
    """The same weights at every call; with a fault, one attribute differs."""
    torch.manual_seed(0)
    model = Decoder().eval()
    if fault:
        planted = FAULTS[fault]
        setattr(model.get_submodule(planted.module), planted.attribute, planted.value)
    return model
