"""Linear probe and last block of a compact port of DINOv2 (SwiGLU), positions resampled for larger pictures."""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1)
        x = (weights.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, d)
        return self.proj(x)


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w12 = nn.Linear(dim, 2 * hidden)
        self.w3 = nn.Linear(hidden, dim)

    def forward(self, x):
        gate, value = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.gamma1 = nn.Parameter(torch.ones(dim))
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = SwiGLU(dim, hidden)
        self.gamma2 = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x + self.gamma1 * self.attn(self.norm1(x))
        x = x + self.gamma2 * self.mlp(self.norm2(x))
        return x


class PatchTokens(nn.Module):
    def __init__(self, dim, patch, grid):
        super().__init__()
        self.grid = grid
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(dim))
        self.position = nn.Parameter(torch.zeros(1 + grid * grid, dim))

    def forward(self, pixels):
        x = self.proj(pixels)
        table = self.position[1:].t().unflatten(-1, (self.grid, self.grid))
        if x.shape[-2:] != table.shape[-2:]:
            table = F.interpolate(table[None], size=x.shape[-2:], mode="bicubic", align_corners=False)[0]
        patches = (x + table).flatten(2).transpose(1, 2)
        cls = (self.cls + self.position[0]).expand(len(x), 1, -1)
        return torch.cat([cls, patches], dim=1)


class DinoV2(nn.Module):
    def __init__(self, dim=32, depth=3, heads=4, patch=6, grid=4, classes=6):
        super().__init__()
        hidden = (int(2 * dim * 2 / 3) + 7) // 8 * 8
        self.tokens = PatchTokens(dim, patch, grid)
        self.blocks = nn.ModuleList(Block(dim, heads, hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(2 * dim, classes)

    def forward(self, pixels):
        x = self.tokens(pixels)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(torch.cat([x[:, 0], x[:, 1:].mean(dim=1)], dim=-1))


RENAMED = (
    ("dinov2.embeddings.patch_embeddings.projection", "tokens.proj"),
    ("dinov2.encoder.layer.", "blocks."),
    ("dinov2.layernorm", "norm"),
    ("classifier", "head"),
    ("attention.output.dense", "attn.proj"),
    ("layer_scale1.lambda1", "gamma1"),
    ("layer_scale2.lambda1", "gamma2"),
    ("mlp.weights_in", "mlp.w12"),
    ("mlp.weights_out", "mlp.w3"),
)


def from_checkpoint(old):
    new = {
        "tokens.cls": old["dinov2.embeddings.cls_token"].flatten(),
        "tokens.position": old["dinov2.embeddings.position_embeddings"][0],
    }
    for name, value in old.items():
        if "attention.attention.query" in name:
            parts = [old[name.replace("query", part)] for part in ("query", "key", "value")]
            name, value = name.replace("attention.attention.query", "attn.qkv"), torch.cat(parts)
        elif "attention.attention." in name or name.endswith(("token", "position_embeddings")):
            continue
        for before, after in RENAMED:
            name = name.replace(before, after)
        new[name] = value
    return new


def main():
    model = DinoV2()
    model.load_state_dict(from_checkpoint(load_file("checkpoint/model.safetensors")))
    trained = nn.ModuleList([model.blocks[-1], model.norm, model.head])
    model.requires_grad_(False)
    trained.requires_grad_(True)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    data = torch.Generator().manual_seed(3)
    for step in range(3):
        pixels = torch.randn(6, 3, 36, 30, generator=data)
        labels = torch.randint(0, 6, (6,), generator=data)
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
