"""One small transformer written by several hands: other names, other nesting, fused layers; the same weights."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, VOCABULARY = 16, 2, 3, 23


class Attention(nn.Module):
    """q, k and v as layers of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, WIDTH)
        self.k_proj = nn.Linear(WIDTH, WIDTH)
        self.v_proj = nn.Linear(WIDTH, WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    batch, length, width = q.shape
    q, k, v = (t.reshape(batch, length, HEADS, width // HEADS).transpose(1, 2) for t in (q, k, v))
    weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(width // HEADS), -1)
    return torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, width)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """The model all others are variants of."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class SelfAttention(nn.Module):
    """q, k and v fused; other names."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(attend(*self.qkv(x).chunk(3, -1)))


class RenamedAttention(nn.Module):
    """Attributes renamed, defined in another order, called in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.wo = nn.Linear(WIDTH, WIDTH)
        self.wv = nn.Linear(WIDTH, WIDTH)
        self.wk = nn.Linear(WIDTH, WIDTH)
        self.wq = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k = self.wk(x)
        v = self.wv(x)
        return self.wo(attend(self.wq(x), k, v))


class Decoder(nn.Module):
    """A block with other names, and the layers of the MLP inside a Sequential."""

    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.self_attention = attention()
        self.input_layernorm = nn.LayerNorm(WIDTH)
        self.post_layernorm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.feed_forward(self.post_layernorm(x))


class Gpt(nn.Module):
    """The model with other names everywhere."""

    def __init__(self, attention: type[nn.Module] = RenamedAttention, layers: int = LAYERS) -> None:
        super().__init__()
        self.h = nn.ModuleList(Decoder(attention) for _ in range(layers))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.wte(x)
        for layer in self.h:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


class Wrapper(nn.Module):
    """What data parallelism does: one more level with the name ``module``."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


GPT_NAMES = {
    "embed": "wte",
    "layers": "h",
    "norm": "ln_f",
    "head": "lm_head",
    "norm1": "input_layernorm",
    "norm2": "post_layernorm",
    "attn": "self_attention",
    "mlp": "feed_forward",
    "up": "0",
    "act": "1",
    "down": "2",
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "out_proj": "wo",
}


def gpt_path(path: str) -> str:
    """Where ``Gpt`` has the layer that ``Transformer`` has at ``path``."""
    return ".".join(GPT_NAMES.get(part, part) for part in path.split("."))


def copy_weights(model: nn.Module, gpt: nn.Module) -> None:
    """Give ``Gpt`` the weights of ``Transformer``; a fused layer gets them one after the other."""
    weights = {gpt_path(name): value.detach() for name, value in model.state_dict().items()}
    for name, parameter in gpt.state_dict().items():
        if ".qkv." in name:
            parts = [name.replace(".qkv.", f".{part}.") for part in ("wq", "wk", "wv")]
            parameter.copy_(torch.cat([weights[part] for part in parts]))
        else:
            parameter.copy_(weights[name.replace(".proj.", ".wo.")])


def run(model: nn.Module) -> None:
    """One forward and backward pass over fixed tokens."""
    tokens = torch.arange(12).reshape(2, 6) % VOCABULARY
    logits = model(tokens)
    F.cross_entropy(logits.reshape(-1, VOCABULARY), (tokens * 3 % VOCABULARY).reshape(-1)).backward()
