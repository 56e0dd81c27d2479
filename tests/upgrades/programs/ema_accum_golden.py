"""Sequence tagger on the whole batch, with an exponential moving average of the weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

TAGS = 5


class Tagger(nn.Module):
    def __init__(self, vocab=50, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.depthwise = nn.Conv1d(dim, dim, 3, padding=1, groups=dim)
        self.pointwise = nn.Conv1d(dim, 2 * dim, 1)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, ids):
        x = self.emb(ids)
        h = self.pointwise(self.depthwise(x.transpose(1, 2)))
        h = F.glu(h, dim=1).transpose(1, 2)
        return self.out(self.norm(x + h))


def corpus(step, n=8):
    g = torch.Generator().manual_seed(500 + step)
    ids = torch.randint(1, 50, (n, 10), generator=g)
    tags = ids * 7 % TAGS
    length = torch.randint(2, 11, (n,), generator=g)
    pad = torch.arange(10) >= length[:, None]
    return ids.masked_fill(pad, 0), tags.masked_fill(pad, -100)


def token_loss(model, ids, tags):
    return F.cross_entropy(model(ids).transpose(1, 2), tags, ignore_index=-100)


def main():
    torch.manual_seed(77)
    model = Tagger()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.7))
    opt = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.98))
    held_ids, held_tags = corpus(99)
    for step in range(3):
        ids, tags = corpus(step)
        opt.zero_grad()
        loss = token_loss(model, ids, tags)
        loss.backward()
        opt.step()
        ema.update_parameters(model)
        with torch.no_grad():
            held = token_loss(ema, held_ids, held_tags)
        print(f"step {step}: train {loss.item():.9f} ema held-out {held.item():.9f}")


if __name__ == "__main__":
    main()
