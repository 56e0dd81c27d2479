"""The actor on a packed batch: all completions in one row, told apart by their cumulative lengths."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, bias):
        total, width = x.shape
        q, k, v = self.in_proj(x).view(total, 3, self.heads, -1).permute(1, 2, 0, 3)
        att = torch.baddbmm(bias.expand(self.heads, -1, -1), q, k.mT, alpha=q.shape[-1] ** -0.5)
        return self.out_proj((att.softmax(-1) @ v).transpose(0, 1).reshape(total, width))


class PackedBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = PackedAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.proj = nn.Linear(4 * width, width)

    def forward(self, x, bias):
        x = x + self.attn(self.norm1(x), bias)
        return x + self.proj(F.gelu(self.fc(self.norm2(x))))


class PackedPolicy(nn.Module):
    def __init__(self, vocab=30, width=32, heads=4, layers=2, max_len=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(max_len, width)
        self.blocks = nn.ModuleList([PackedBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.heads = nn.Linear(width, vocab + 1)

    def forward(self, ids, cu_seqlens):
        index = torch.arange(len(ids))
        doc = torch.bucketize(index, cu_seqlens[1:], right=True)
        position = index - cu_seqlens[doc]
        visible = (doc[:, None] == doc[None]) & (index[:, None] >= index[None])
        bias = torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))
        x = self.tok(ids) + self.pos(position)
        for block in self.blocks:
            x = block(x, bias)
        out = self.heads(self.norm(x))
        return out[:, :-1], out[:, -1]


def remap(sd):
    out = {}
    for k, v in sd.items():
        k = k.replace("attn.attn.in_proj_", "attn.in_proj.").replace("attn.attn.", "attn.")
        k = k.replace("mlp.0", "fc").replace("mlp.2", "proj")
        if not k.startswith(("actor", "critic")):
            out[k] = v
    for leaf in ("weight", "bias"):
        out[f"heads.{leaf}"] = torch.cat([sd[f"actor.{leaf}"], sd[f"critic.{leaf}"]])
    return out


def main():
    model = PackedPolicy()
    model.load_state_dict(remap(torch.load("weights.pt")))
    g = torch.Generator().manual_seed(21)
    seqs = [torch.randint(0, 30, (n,), generator=g) for n in (7, 11, 4, 9)]
    ids = torch.cat(seqs)
    cu = F.pad(torch.tensor([len(s) for s in seqs]).cumsum(0), (1, 0))
    weights = torch.tensor([1.0, -0.5, 0.7, 0.2])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    n_targets = len(ids) - len(seqs)
    for it in range(2):
        logits, values = model(ids, cu)
        nll = F.cross_entropy(logits[:-1], ids[1:], reduction="none")
        sums = torch.stack([-nll[a : b - 1].sum() for a, b in zip(cu[:-1].tolist(), cu[1:].tolist())])
        print(f"iter {it}: value {values.mean().item():.9f}")
        for s in sums:
            print(f"  logp {s.item():.9f}")
        loss = -(sums @ weights) / n_targets + 0.5 * values.mean().square()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
