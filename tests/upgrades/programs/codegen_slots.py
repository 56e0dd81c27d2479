"""Language modelling with own port of CodeGen, with separate projections and complex rotations."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, LENGTH, DIM, HEADS, ROTARY = 80, 14, 32, 4, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.o = nn.Linear(DIM, DIM, bias=False)

    def turn(self, x):
        """Neighbouring channels are a complex number; only the first channels of a head are turned."""
        pairs = torch.view_as_complex(x[..., :ROTARY].float().unflatten(-1, (-1, 2)))
        inverse = 10000.0 ** (-torch.arange(0, ROTARY, 2) / ROTARY)
        angle = torch.arange(x.shape[-2])[:, None] * inverse
        pairs = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([torch.view_as_real(pairs).flatten(-2), x[..., ROTARY:]], dim=-1)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.attention = Attention()
        self.up = nn.Linear(DIM, 64)
        self.down = nn.Linear(64, DIM)

    def forward(self, x):
        y = self.norm(x)
        mlp = self.down(F.gelu(self.up(y), approximate="tanh"))
        return x + self.attention(y) + mlp


class CodeGen(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def convert(state):
    new = {}
    for key, value in state.items():
        for old, name in (("transformer.", ""), ("wte", "embed"), ("ln_f", "norm"), ("lm_head", "head")):
            key = key.replace(old, name)
        key = key.replace("h.", "blocks.", 1) if key.startswith("h.") else key
        for old, name in (("ln_1", "norm"), ("attn.", "attention."), ("mlp.fc_in", "up"), ("mlp.fc_out", "down")):
            key = key.replace(old, name)
        if "qkv_proj" in key:
            # four slices of the model parallel training, in each of them query, value and key
            slices = value.view(4, 3, DIM // 4, DIM)
            for name, part in zip("qvk", slices.unbind(1)):
                new[key.replace("qkv_proj", name)] = part.reshape(DIM, DIM)
        else:
            new[key.replace("out_proj", "o")] = value
    return new


def batch(step):
    generator = torch.Generator().manual_seed(900 + step)
    start = torch.randint(0, VOCAB, (6, 1), generator=generator)
    jump = torch.randint(1, 5, (6, 1), generator=generator)
    return (start + jump * torch.arange(LENGTH)) % VOCAB


if __name__ == "__main__":
    model = CodeGen()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95))
    for step in range(3):
        ids = batch(step)
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
