"""Image/text contrastive training on the full batch, clipping and AdamW from torch."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, DIM = 12, 16


class ImageTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2)
        self.dw = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pw = nn.Conv2d(8, 14, 1)
        self.proj = nn.Linear(14, DIM, bias=False)

    def forward(self, x):
        x = F.hardswish(self.conv1(x))
        x = F.hardswish(self.pw(self.dw(x)))
        return self.proj(x.mean((2, 3)))


class TextTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(33, 14)
        self.mix = nn.TransformerEncoderLayer(
            14, 2, 28, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.proj = nn.Linear(14, DIM, bias=False)

    def forward(self, ids):
        x = self.mix(self.tok(ids), src_key_padding_mask=ids == 0)
        last = (ids != 0).sum(1) - 1
        return self.proj(x[torch.arange(len(ids)), last])


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = ImageTower(), TextTower()
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.2)))

    def forward(self, x, ids):
        a = F.normalize(self.image(x), dim=-1)
        b = F.normalize(self.text(ids), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


def build():
    return CLIP()


def pairs(step):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 3, 9, 9, generator=g)
    ids = torch.randint(1, 33, (BATCH, 7), generator=g)
    lengths = torch.randint(2, 8, (BATCH,), generator=g)
    ids[torch.arange(7)[None] >= lengths[:, None]] = 0
    return x, ids


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.2}, {"params": rest, "weight_decay": 0.0}], lr=4e-3)
    for step in range(3):
        logits = model(*pairs(step))
        labels = torch.arange(BATCH)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f} scale {model.logit_scale.exp().item():.9f}")


if __name__ == "__main__":
    main()
