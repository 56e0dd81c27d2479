"""Rectified flow training of a small class-conditional DiT in float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS = 4
SIDE = 8
PATCH = 2
DIM = 48
HEADS = 4
CLASSES = 5


class TimeEmbedding(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.size = size
        self.mlp = nn.Sequential(nn.Linear(size, DIM), nn.SiLU(), nn.Linear(DIM, DIM))

    def forward(self, t):
        half = self.size // 2
        freqs = 10000.0 ** (-torch.arange(half).float() / half)
        angles = 1000.0 * t[:, None] * freqs
        emb = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return self.mlp(emb)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM, elementwise_affine=False)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(DIM, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
        self.modulation = nn.Linear(DIM, 6 * DIM)

    def forward(self, x, c):
        mod = self.modulation(F.silu(c))[:, None]
        shift1, scale1, gate1, shift2, scale2, gate2 = mod.chunk(6, dim=-1)
        x = x + gate1 * self.attn(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class FinalLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM, elementwise_affine=False)
        self.modulation = nn.Linear(DIM, 2 * DIM)
        self.linear = nn.Linear(DIM, PATCH * PATCH * CHANNELS)

    def forward(self, x, c):
        shift, scale = self.modulation(F.silu(c))[:, None].chunk(2, dim=-1)
        return self.linear(self.norm(x) * (1 + scale) + shift)


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (SIDE // PATCH) ** 2
        self.patch = nn.Conv2d(CHANNELS, DIM, PATCH, stride=PATCH)
        self.pos = nn.Parameter(torch.randn(1, tokens, DIM) * 0.5)
        self.time = TimeEmbedding()
        self.label = nn.Embedding(CLASSES, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.final = FinalLayer()

    def forward(self, x, t, labels):
        b = x.shape[0]
        grid = SIDE // PATCH
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        c = self.time(t) + self.label(labels)
        for block in self.blocks:
            x = block(x, c)
        x = self.final(x, c)
        x = x.view(b, grid, grid, PATCH, PATCH, CHANNELS)
        return torch.einsum("bhwpqc->bchpwq", x).reshape(b, CHANNELS, SIDE, SIDE)


def build():
    torch.manual_seed(101)
    model = DiT()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 2 and "label" not in name:
                p.mul_(2.0)
    return model


def main():
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    gen = torch.Generator().manual_seed(102)
    for step in range(3):
        data = torch.randn(6, CHANNELS, SIDE, SIDE, generator=gen)
        noise = torch.randn(data.shape, generator=gen)
        t = torch.sigmoid(torch.randn(6, generator=gen))
        labels = torch.randint(0, CLASSES, (6,), generator=gen)
        mix = t[:, None, None, None]
        velocity = model((1 - mix) * data + mix * noise, t, labels)
        per_sample = (velocity - (noise - data)).square().mean(dim=(1, 2, 3))
        loss = per_sample.mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.5f} worst {per_sample.max().item():.5f} grad {norm.item():.5f}")


if __name__ == "__main__":
    main()
