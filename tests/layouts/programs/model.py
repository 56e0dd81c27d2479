"""A GPT, or the chunk of it that a pipeline stage has."""

from typing import Any

import parallel_state as ps
import torch
from attention import SelfAttention
from layers import (
    LAYERS,
    LENGTH,
    Dropout,
    LayerNorm,
    OutputLayer,
    RMSNorm,
    VocabParallelCrossEntropy,
    VocabParallelEmbedding,
)
from mlp import MLP, MoELayer
from torch import nn


class TransformerLayer(nn.Module):
    def __init__(self, layer_number: int) -> None:
        super().__init__()
        name = f"decoder.layers.{layer_number}"
        self.layer_number = layer_number
        self.input_layernorm = RMSNorm(f"{name}.input_layernorm")
        self.self_attention = SelfAttention(f"{name}.self_attention")
        self.attention_dropout = Dropout(f"attention {layer_number}")
        self.pre_mlp_layernorm = RMSNorm(f"{name}.pre_mlp_layernorm")
        has_experts = ps.LAYOUT.experts and layer_number % 2 == 1
        self.mlp = (MoELayer if has_experts else MLP)(f"{name}.mlp")
        self.mlp_dropout = Dropout(f"mlp {layer_number}")

    def forward(self, x: torch.Tensor, step: int, samples: torch.Tensor) -> torch.Tensor:
        y = self.self_attention(self.input_layernorm(x))
        x = torch.add(x, self.attention_dropout(y, step, samples))
        y = self.mlp(self.pre_mlp_layernorm(x))
        return torch.add(x, self.mlp_dropout(y, step, samples))


class Recomputed(torch.autograd.Function):
    """A layer that keeps its input only and is computed again for its gradients."""

    @staticmethod
    def forward(ctx: Any, layer: nn.Module, x: torch.Tensor, step: int, samples: torch.Tensor) -> torch.Tensor:
        ctx.layer, ctx.step, ctx.samples = layer, step, samples
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x, step, samples)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x, ctx.step, ctx.samples)
        torch.autograd.backward([y], [gradient])
        return None, x.grad, None, None


class Decoder(nn.Module):
    def __init__(self, numbers: range, last: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([TransformerLayer(number) for number in numbers])
        self.final_layernorm = LayerNorm("decoder.final_layernorm") if last else None

    def forward(self, x: torch.Tensor, step: int, samples: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if ps.LAYOUT.recompute:
                x = Recomputed.apply(layer, x, step, samples)
            else:
                x = layer(x, step, samples)
        return x if self.final_layernorm is None else self.final_layernorm(x)


class GPTModel(nn.Module):
    """The layers of one of the ``stages`` of a pipeline; the first embeds, the last gives the loss of each token."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        self.first, self.last = stage == 0, stage == stages - 1
        count = LAYERS // stages
        if self.first:
            self.embedding = VocabParallelEmbedding("embedding")
        self.decoder = Decoder(range(count * stage, count * stage + count), self.last)
        if self.last:
            self.output_layer = OutputLayer("embedding", own=not self.first)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, step: int, samples: torch.Tensor) -> torch.Tensor:
        places = ps.positions(LENGTH)
        if self.first:
            x = self.embedding(x[places])
        x = self.decoder(x, step, samples)
        if not self.last:
            return x
        logits = self.output_layer(x, self.embedding.weight if self.first else None)
        return VocabParallelCrossEntropy.apply(logits, labels[places])


def make_chunks() -> list[GPTModel]:
    """Return the chunks of this rank's pipeline stage."""
    pp, chunks = ps.group("pp"), ps.LAYOUT.vpp
    return [GPTModel(pp.size * chunk + pp.rank, pp.size * chunks) for chunk in range(chunks)]
