"""Pair stack of a protein folding model (triangle updates and biased attention) with einsum."""

import torch
import torch.nn.functional as F
from torch import nn


class TriangleMultiplication(nn.Module):
    def __init__(self, dim, hidden, outgoing):
        super().__init__()
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"
        self.norm_in = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, 4 * hidden)
        self.norm_out = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, z, mask):
        z = self.norm_in(z)
        a, gate_a, b, gate_b = self.project(z).chunk(4, dim=-1)
        a = a * gate_a.sigmoid() * mask
        b = b * gate_b.sigmoid() * mask
        x = torch.einsum(self.equation, a, b)
        return self.out(self.norm_out(x)) * self.gate(z).sigmoid()


class TriangleAttention(nn.Module):
    def __init__(self, dim, heads, starting):
        super().__init__()
        self.heads, self.starting = heads, starting
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = nn.Linear(dim, heads, bias=False)
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, z, mask):
        if not self.starting:
            z, mask = z.transpose(1, 2), mask.transpose(1, 2)
        z = self.norm(z)
        q, k, v = self.qkv(z).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        logits = torch.einsum("bijhc,bikhc->bihjk", q, k) * q.shape[-1] ** -0.5
        logits = logits + torch.einsum("bjkd,hd->bhjk", z, self.bias.weight).unsqueeze(1)
        logits = logits + (mask.squeeze(-1)[:, :, None, None, :] - 1) * 1e9
        weights = logits.softmax(dim=-1)
        x = torch.einsum("bihjk,bikhc->bijhc", weights, v).flatten(-2)
        x = self.out(x * self.gate(z).sigmoid())
        if not self.starting:
            x = x.transpose(1, 2)
        return x


class PairBlock(nn.Module):
    def __init__(self, dim=16, hidden=12, heads=2):
        super().__init__()
        self.outgoing = TriangleMultiplication(dim, hidden, outgoing=True)
        self.incoming = TriangleMultiplication(dim, hidden, outgoing=False)
        self.starting = TriangleAttention(dim, heads, starting=True)
        self.ending = TriangleAttention(dim, heads, starting=False)
        self.transition = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, z, mask):
        z = z + self.outgoing(z, mask)
        z = z + self.incoming(z, mask)
        z = z + self.starting(z, mask)
        z = z + self.ending(z, mask)
        return z + self.transition(z)


class Distogram(nn.Module):
    def __init__(self, residues=20, dim=16, bins=8):
        super().__init__()
        self.left = nn.Embedding(residues, dim)
        self.right = nn.Embedding(residues, dim)
        self.relative = nn.Embedding(9, dim)
        self.blocks = nn.ModuleList(PairBlock(dim) for _ in range(2))
        self.head = nn.Linear(dim, bins)

    def forward(self, sequence, mask):
        n = sequence.shape[1]
        offset = (torch.arange(n)[:, None] - torch.arange(n)).clamp(-4, 4) + 4
        z = self.left(sequence)[:, :, None] + self.right(sequence)[:, None] + self.relative(offset)
        for block in self.blocks:
            z = block(z, mask)
        return self.head(z + z.transpose(1, 2))


def convert(old):
    """Weights of the model with a layer per projection."""
    new = {}
    for name, value in old.items():
        if ".a_proj." in name:
            parts = [old[name.replace("a_proj", p)] for p in ("a_proj", "a_gate", "b_proj", "b_gate")]
            new[name.replace("a_proj", "project")] = torch.cat(parts)
        elif ".to_q." in name:
            new[name.replace("to_q", "qkv")] = torch.cat([old[name.replace("to_q", f"to_{p}")] for p in "qkv"])
        elif not any(p in name for p in (".a_gate.", ".b_proj.", ".b_gate.", ".to_k.", ".to_v.")):
            new[name] = value
    return new


def proteins(seed, batch=2, longest=10):
    g = torch.Generator().manual_seed(seed)
    sequence = torch.randint(0, 20, (batch, longest), generator=g)
    lengths = torch.tensor([longest, longest - 3])
    coords = torch.randn(batch, longest, 3, generator=g).cumsum(1)
    bins = (torch.cdist(coords, coords) * 1.5).long().clamp(max=7)
    return sequence, lengths, bins


def main():
    model = Distogram()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    for step in range(3):
        sequence, lengths, bins = proteins(step)
        present = (torch.arange(sequence.shape[1]) < lengths[:, None]).float()
        mask = (present[:, :, None] * present[:, None, :]).unsqueeze(-1)
        logits = model(sequence, mask)
        each = F.cross_entropy(logits.permute(0, 3, 1, 2), bins, reduction="none")
        loss = (each * mask.squeeze(-1)).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
