"""Pair stack of a protein folding model: a layer per projection, matmul on permuted tensors, a loop of proteins."""

import torch
import torch.nn.functional as F
from torch import nn


class TriangleUpdate(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm_in = nn.LayerNorm(dim)
        self.a_proj = nn.Linear(dim, hidden)
        self.a_gate = nn.Linear(dim, hidden)
        self.b_proj = nn.Linear(dim, hidden)
        self.b_gate = nn.Linear(dim, hidden)
        self.norm_out = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, dim)
        self.gate = nn.Linear(dim, dim)

    def combine(self, a, b):
        raise NotImplementedError

    def forward(self, z):
        z = self.norm_in(z)
        a = self.a_proj(z) * torch.sigmoid(self.a_gate(z))
        b = self.b_proj(z) * torch.sigmoid(self.b_gate(z))
        x = self.combine(a.permute(2, 0, 1), b.permute(2, 0, 1)).permute(1, 2, 0)
        return torch.sigmoid(self.gate(z)) * self.out(self.norm_out(x))


class Outgoing(TriangleUpdate):
    def combine(self, a, b):
        return a @ b.transpose(-1, -2)


class Incoming(TriangleUpdate):
    def combine(self, a, b):
        return a.transpose(-1, -2) @ b


class StartingAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Linear(dim, heads, bias=False)
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, z):
        n = z.size(0)
        z = self.norm(z)
        q, k, v = (layer(z).view(n, n, self.heads, -1).transpose(1, 2) for layer in (self.to_q, self.to_k, self.to_v))
        bias = self.bias(z).permute(2, 0, 1).unsqueeze(0).expand(n, -1, -1, -1)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(x.transpose(1, 2).reshape(n, n, -1) * torch.sigmoid(self.gate(z)))


class EndingAttention(StartingAttention):
    def forward(self, z):
        return super().forward(z.transpose(0, 1)).transpose(0, 1)


class Block(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.outgoing = Outgoing(dim, hidden)
        self.incoming = Incoming(dim, hidden)
        self.starting = StartingAttention(dim, heads)
        self.ending = EndingAttention(dim, heads)
        self.transition = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, z):
        for layer in (self.outgoing, self.incoming, self.starting, self.ending, self.transition):
            z = z + layer(z)
        return z


class Model(nn.Module):
    """One protein at a time, without padding."""

    def __init__(self):
        super().__init__()
        self.left = nn.Embedding(20, 16)
        self.right = nn.Embedding(20, 16)
        self.relative = nn.Embedding(9, 16)
        self.blocks = nn.ModuleList([Block(16, 12, 2), Block(16, 12, 2)])
        self.head = nn.Linear(16, 8)

    def forward(self, sequence):
        position = torch.arange(len(sequence))
        offset = torch.clamp(position.unsqueeze(1) - position.unsqueeze(0), -4, 4) + 4
        z = self.left(sequence).unsqueeze(1) + self.right(sequence).unsqueeze(0) + self.relative(offset)
        for block in self.blocks:
            z = block(z)
        return self.head(z + z.transpose(0, 1))


def build():
    torch.manual_seed(0)
    return Model()


def proteins(seed, batch=2, longest=10):
    g = torch.Generator().manual_seed(seed)
    sequence = torch.randint(0, 20, (batch, longest), generator=g)
    coords = torch.randn(batch, longest, 3, generator=g).cumsum(1)
    bins = (torch.cdist(coords, coords) * 1.5).long().clamp(max=7)
    lengths = [longest, longest - 3]
    return [s[:n] for s, n in zip(sequence, lengths)], [b[:n, :n] for b, n in zip(bins, lengths)]


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    for step in range(3):
        sequences, bins = proteins(step)
        logits = torch.cat([model(sequence).flatten(0, 1) for sequence in sequences])
        loss = F.cross_entropy(logits, torch.cat([b.flatten() for b in bins]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
