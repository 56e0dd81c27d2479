"""Segmentation U-Net: mixup, label smoothing and dice, LambdaLR warmup-cosine, group norm."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, STEPS = 4, 4


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1),
            nn.GroupNorm(2, cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1),
            nn.GroupNorm(2, cout),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.block(x)


class AttentionGate(nn.Module):
    """Attention U-Net's gate: the decoder says which part of the skip connection counts."""

    def __init__(self, ch, mid):
        super().__init__()
        self.theta = nn.Conv2d(ch, mid, 1, bias=False)
        self.phi = nn.Conv2d(ch, mid, 1)
        self.psi = nn.Conv2d(mid, 1, 1)

    def forward(self, skip, gate):
        return skip * torch.sigmoid(self.psi(F.relu(self.theta(skip) + self.phi(gate))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1, self.enc2, self.mid = DoubleConv(2, 8), DoubleConv(8, 12), DoubleConv(12, 16)
        self.up2 = nn.ConvTranspose2d(16, 12, 2, stride=2)
        self.gate2, self.dec2 = AttentionGate(12, 6), DoubleConv(24, 12)
        self.up1 = nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.gate1, self.dec1 = AttentionGate(8, 4), DoubleConv(16, 8)
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        s1 = self.enc1(x)
        s2 = self.enc2(F.max_pool2d(s1, 2))
        h = self.up2(self.mid(F.max_pool2d(s2, 2)))
        h = self.up1(self.dec2(torch.cat([self.gate2(s2, h), h], 1)))
        return self.head(self.dec1(torch.cat([self.gate1(s1, h), h], 1)))


def build():
    return UNet()


def scans(step):
    g = torch.Generator().manual_seed(40 + step)
    x = torch.randn(6, 2, 16, 16, generator=g)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0.5).long()
    lam = float(np.random.default_rng(step).beta(0.8, 0.8))
    return x, y, lam, torch.randperm(6, generator=g)


def dice_loss(logits, y):
    p = logits.softmax(1)
    t = F.one_hot(y, CLASSES).permute(0, 3, 1, 2).float()
    inter = (p * t).sum((0, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1)).mean()


def criterion(logits, y):
    return F.cross_entropy(logits, y, label_smoothing=0.1) + 0.5 * dice_loss(logits, y)


def warmup_cosine(step):
    if step < 2:
        return (step + 1) / 2
    return 0.5 * (1 + math.cos(math.pi * (step - 2) / (STEPS - 2)))


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, warmup_cosine)
    for step in range(STEPS):
        x, y, lam, perm = scans(step)
        logits = model(lam * x + (1 - lam) * x[perm])
        loss = lam * criterion(logits, y) + (1 - lam) * criterion(logits, y[perm])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: lr {sched.get_last_lr()[0]:.9f} loss {loss.item():.9f}")
        sched.step()


if __name__ == "__main__":
    main()
