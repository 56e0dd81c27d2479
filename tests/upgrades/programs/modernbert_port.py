"""Masked language modelling with a compact port of ModernBERT that drops the padding and works on flat tokens."""

import math

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

VOCAB, DIM, INNER, LAYERS, HEADS, WINDOW, EVERY = 80, 32, 40, 4, 4, 6, 3


def layer_norm():
    return nn.LayerNorm(DIM, eps=1e-5, bias=False)


class Attention(nn.Module):
    def __init__(self, local):
        super().__init__()
        self.local = local
        self.theta = 10.0 if local else 160.0
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def rotate(self, x, position):
        half = x.shape[-1] // 2
        frequency = self.theta ** (-torch.arange(half) / half)
        angle = position[:, None, None] * frequency
        a, b = x.split(half, dim=-1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)

    def forward(self, x, row, position):
        q, k, v = self.qkv(x).view(-1, 3, HEADS, DIM // HEADS).unbind(1)
        q, k = self.rotate(q, position), self.rotate(k, position)
        allowed = row[:, None] == row[None, :]
        if self.local:
            allowed = allowed & ((position[:, None] - position[None, :]).abs() <= WINDOW // 2)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(DIM // HEADS)
        weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        return self.out(torch.einsum("hqk,khd->qhd", weights, v).flatten(1))


class GeGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(DIM, INNER, bias=False)
        self.gate = nn.Linear(DIM, INNER, bias=False)
        self.out = nn.Linear(INNER, DIM, bias=False)

    def forward(self, x):
        return self.out(F.gelu(self.value(x)) * self.gate(x))


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.attn_norm = nn.Identity() if index == 0 else layer_norm()
        self.attn = Attention(local=index % EVERY != 0)
        self.mlp_norm = layer_norm()
        self.mlp = GeGLU()

    def forward(self, x, row, position):
        x = x + self.attn(self.attn_norm(x), row, position)
        return x + self.mlp(self.mlp_norm(x))


class ModernBert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.embed_norm = layer_norm()
        self.layers = nn.ModuleList(Layer(i) for i in range(LAYERS))
        self.final_norm = layer_norm()
        self.dense = nn.Linear(DIM, DIM, bias=False)
        self.head_norm = layer_norm()
        self.decoder_bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, tokens, row, position, wanted):
        x = self.embed_norm(self.embed(tokens))
        for layer in self.layers:
            x = layer(x, row, position)
        x = self.final_norm(x)[wanted]
        x = self.head_norm(F.gelu(self.dense(x)))
        return x @ self.embed.weight.t() + self.decoder_bias


def from_checkpoint(old):
    new = {
        "embed.weight": old["model.embeddings.tok_embeddings.weight"],
        "embed_norm.weight": old["model.embeddings.norm.weight"],
        "final_norm.weight": old["model.final_norm.weight"],
        "dense.weight": old["head.dense.weight"],
        "head_norm.weight": old["head.norm.weight"],
        "decoder_bias": old["decoder.bias"],
    }
    for i in range(LAYERS):
        source, layer = f"model.layers.{i}", f"layers.{i}"
        if i > 0:
            new[f"{layer}.attn_norm.weight"] = old[f"{source}.attn_norm.weight"]
        new[f"{layer}.attn.qkv.weight"] = old[f"{source}.attn.Wqkv.weight"]
        new[f"{layer}.attn.out.weight"] = old[f"{source}.attn.Wo.weight"]
        new[f"{layer}.mlp_norm.weight"] = old[f"{source}.mlp_norm.weight"]
        value, gate = old[f"{source}.mlp.Wi.weight"].chunk(2)
        new[f"{layer}.mlp.value.weight"] = value
        new[f"{layer}.mlp.gate.weight"] = gate
        new[f"{layer}.mlp.out.weight"] = old[f"{source}.mlp.Wo.weight"]
    return new


def masked_batch(step, batch=4, longest=18):
    g = torch.Generator().manual_seed(step)
    lengths = torch.tensor([longest, longest - 5, longest - 2, longest - 8])
    tokens = torch.randint(4, VOCAB, (batch, longest), generator=g)
    attention = torch.arange(longest) < lengths[:, None]
    chosen = (torch.rand(batch, longest, generator=g) < 0.3) & attention
    return tokens, attention, chosen


def main():
    model = ModernBert()
    model.load_state_dict(from_checkpoint(load_file("checkpoint/model.safetensors")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5)
    for step in range(3):
        tokens, attention, chosen = masked_batch(step)
        row, position = attention.nonzero(as_tuple=True)
        wanted = chosen[attention]
        labels = tokens[attention][wanted]
        logits = model(tokens.masked_fill(chosen, 3)[attention], row, position, wanted)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
