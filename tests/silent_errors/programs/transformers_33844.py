"""Transformers 33844: attention applies dropout in evaluation mode too (the FlashAttention path of a model).

The probability is handed to the kernel as configured and not as ``self.training`` says.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class FlashAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, fault: bool) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj = nn.Linear(width, width)
        self.heads, self.attention_dropout, self.fault = heads, dropout, fault

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        dropout = self.attention_dropout if self.training or self.fault else 0.0
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)  # planted
        return self.o_proj(y.transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, fault: bool) -> None:
        super().__init__()
        self.self_attn = FlashAttention(width, 4, 0.1, fault)
        self.input_norm, self.post_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Decoder(nn.Module):
    def __init__(self, fault: bool, vocabulary: int = 48, width: int = 32) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, fault) for _ in range(2))
        self.norm, self.lm_head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main() -> None:
    given = options()
    model = Decoder(given.fault)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = debugger(given)
    for step in range(3):
        tokens = torch.randint(0, 48, (4, 11))
        probe.start(model)
        if step == 1:  # a validation between two steps of training
            model.eval()
            with torch.no_grad():
                print("validation", float(loss_of(model, tokens)))
            model.train()
        else:
            loss = loss_of(model, tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
