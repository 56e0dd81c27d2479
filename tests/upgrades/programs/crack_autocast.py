"""Segmentation of thin lines with a small encoder and decoder under bfloat16 autocast."""

import torch
from torch import nn
from torch.nn import functional as F

SIZE = 32
PRECISE = False


class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.InstanceNorm2d(outputs, affine=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x):
        return F.leaky_relu(self.conv2(F.leaky_relu(self.norm(self.conv1(x)), 0.1)), 0.1)


class Tversky(nn.Module):
    """Overlap of prediction and mask in single precision, with small areas that count as much as large ones."""

    def __init__(self, missed=0.7, false=0.3):
        super().__init__()
        self.missed, self.false = missed, false

    def forward(self, logits, mask):
        p = logits.float().sigmoid().flatten(1)
        y = mask.flatten(1)
        hit = (p * y).sum(1)
        index = hit / (hit + self.missed * ((1 - p) * y).sum(1) + self.false * (p * (1 - y)).sum(1))
        return -index.clamp(min=1e-6).log().mean()


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = Double(1, 12)
        self.down2 = Double(12, 24)
        self.up = nn.ConvTranspose2d(24, 12, 2, stride=2)
        self.last = Double(24, 12)
        self.head = nn.Conv2d(12, 1, 1)
        self.criterion = Tversky()

    def forward(self, images, mask):
        a = self.down1(images)
        b = self.down2(F.max_pool2d(a, 2))
        x = self.last(torch.cat([a, self.up(b)], dim=1))
        return self.criterion(self.head(x), mask)


def cracks(generator):
    column = torch.arange(SIZE).float()
    slope = torch.rand(6, 1, generator=generator) - 0.5
    height = SIZE / 2 + slope * (column - SIZE / 2)
    mask = ((column[None, :, None] - height[:, None]).abs() < 1.0).float()[:, None]
    return mask * 1.5 + 0.4 * torch.randn(mask.shape, generator=generator), mask


torch.manual_seed(14)
model = Segmenter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", enabled=not PRECISE, init_scale=1024.0)
generator = torch.Generator().manual_seed(9)

for step in range(3):
    images, mask = cracks(generator)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not PRECISE):
        loss = model(images, mask)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step} loss {loss.item():.9f}")
