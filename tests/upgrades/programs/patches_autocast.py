"""Small vision transformer trained under bfloat16 autocast."""

import torch
import torch.nn as nn
import torch.nn.functional as F

IMG, PATCH, DIM, HEADS, DEPTH, CLASSES = 12, 4, 32, 4, 2, 6


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, DIM, kernel_size=PATCH, stride=PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.scale = (DIM // HEADS) ** -0.5

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(b, n, DIM)
        return self.proj(out)


class LayerScale(nn.Module):
    def __init__(self, value=0.7):
        super().__init__()
        self.gamma = nn.Parameter(value * torch.ones(DIM))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(DIM), SelfAttention(), LayerScale()
        self.norm2, self.ls2 = nn.LayerNorm(DIM), LayerScale()
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        x = x + self.ls2(self.mlp(self.norm2(x)))
        return x


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = PatchEmbed()
        self.cls = nn.Parameter(torch.randn(1, 1, DIM))
        self.pos = nn.Parameter(torch.randn(1, (IMG // PATCH) ** 2 + 1, DIM))
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.fc = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        x = self.patch(x)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.fc(self.norm(x)[:, 0])


def init(model):
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.12)


def stripes(step, n=16):
    """images with a class-dependent stripe"""
    g = torch.Generator().manual_seed(step)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    x = torch.randn(n, 3, IMG, IMG, generator=g)
    for i, c in enumerate(y):
        x[i, c % 3, 2 * c] += 2.0
    return x, y


def train_step(model, opt, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.1)
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss, norm


def main():
    torch.manual_seed(21)
    model = ViT()
    init(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        loss, norm = train_step(model, opt, *stripes(step))
        print(f"step {step}: loss {loss.item():.9f} grad norm {norm.item():.9f}")


if __name__ == "__main__":
    main()
