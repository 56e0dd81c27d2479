"""Scores all candidate continuations of a prompt in one pass: a tree of tokens with a mask of ancestors."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, eps=1e-6)


class TreeAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, depth, mask, past):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)
        half = q.shape[-1] // 2
        angle = depth[:, None] * 100.0 ** (-torch.arange(half) / half)
        turn = torch.polar(torch.ones_like(angle), angle)
        q, k = (torch.view_as_real(torch.complex(p[..., :half], p[..., half:]) * turn) for p in (q, k))
        q, k = q.transpose(-1, -2).flatten(-2), k.transpose(-1, -2).flatten(-2)
        present = (k, v)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return self.out((weights @ v).transpose(0, 1).flatten(1)), present


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = RMSNorm(dim)
        self.attn = TreeAttention(dim, heads)
        self.norm2 = RMSNorm(dim)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x, depth, mask, past):
        attended, present = self.attn(self.norm1(x), depth, mask, past)
        x = x + attended
        return x + self.down(F.relu(self.up(self.norm2(x))).square()), present


class TreeVerifier(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=3, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = RMSNorm(dim)

    def forward(self, tokens, depth, mask, pasts=None):
        x = self.embed(tokens)
        presents = []
        for i, block in enumerate(self.blocks):
            x, present = block(x, depth, mask, None if pasts is None else pasts[i])
            presents.append(present)
        logits = F.linear(self.norm(x), self.embed.weight)
        return logits.log_softmax(dim=-1), presents


def grow(paths):
    """Merges the common beginnings of the candidates; gives the tokens, the parents and the nodes of each path."""
    tokens, parents, index, nodes = [], [], {}, []
    for path in paths:
        walked = []
        for end in range(1, len(path) + 1):
            key = tuple(path[:end])
            if key not in index:
                index[key] = len(tokens)
                tokens.append(path[end - 1])
                parents.append(index.get(key[:-1], -1))
            walked.append(index[key])
        nodes.append(walked)
    return torch.tensor(tokens), parents, nodes


def ancestry(parents):
    mask = torch.eye(len(parents), dtype=torch.bool)
    depth = torch.zeros(len(parents), dtype=torch.long)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node] |= mask[parent]
            depth[node] = depth[parent] + 1
    return mask, depth


@torch.inference_mode()
def score(model, prompt, paths):
    n = len(prompt)
    first, pasts = model(prompt, torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril())
    tokens, parents, nodes = grow(paths)
    mask, depth = ancestry(parents)
    mask = torch.cat([torch.ones(len(tokens), n, dtype=torch.bool), mask], dim=1)
    log_p, _ = model(tokens, n + depth, mask, pasts)
    rows = torch.cat([log_p, first[-1:]])
    each = torch.stack([rows[parent, token] for token, parent in zip(tokens, parents)])
    return [each[walked].sum().item() for walked in nodes]


def candidates(g):
    prompt = torch.randint(0, 64, (int(torch.randint(4, 9, (1,), generator=g)),), generator=g)
    a, b, c, d, e, f = torch.randperm(64, generator=g)[:6].tolist()
    return prompt, [[a, b, c, d], [a, b, e], [a, f, c], [d, b, c], [d, e]]


def main():
    model = TreeVerifier()
    model.load_state_dict(torch.load("weights.pt"))
    model.eval()
    g = torch.Generator().manual_seed(4)
    for call in range(3):
        prompt, paths = candidates(g)
        print(f"call {call}", " ".join(f"{value:.7f}" for value in score(model, prompt, paths)))


if __name__ == "__main__":
    main()
