"""Gated transformers, q, k, v and gate, up in layers of their own or fused: ``... WEIGHTS.npz FOLDER`` records both.

The weights of the split model are saved; the fused one has the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from msprobe.pytorch import PrecisionDebugger
from tests.compare.layer_inference.fused_sizes import LABELS, LAYERS, TOKENS, VOCABULARY, WIDTH, fused_weights
from tests.fresh_debugger import forget


class Attention(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.qkv_proj = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            q, k, v = self.qkv_proj(x).split(WIDTH, -1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self.o_proj(torch.matmul(torch.softmax(torch.matmul(q, k.transpose(1, 2)) / WIDTH**0.5, -1), v))


class Mlp(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.gate_up_proj = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        else:
            self.gate_proj, self.up_proj = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1) if self.fused else (self.gate_proj(x), self.up_proj(x))
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.self_attn, self.mlp = Attention(fused), Mlp(fused)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(fused) for _ in range(LAYERS)])
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


def main(weights: str, folder: str) -> None:
    torch.manual_seed(0)
    split, fused = Model(fused=False), Model(fused=True)
    values = {name: value.numpy() for name, value in split.state_dict().items()}
    np.savez(weights, **values)
    fused.load_state_dict({name: torch.from_numpy(value) for name, value in fused_weights(values).items()})
    for name, model in (("split", split), ("fused", fused)):
        forget()
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(Path(folder) / name)})
        with debugger.collect(model):
            F.cross_entropy(model(torch.from_numpy(TOKENS)).view(-1, VOCABULARY), torch.from_numpy(LABELS)).backward()
    forget()


if __name__ == "__main__":
    main(*sys.argv[1:])
