"""Swin without torch.roll: tokens of each (shifted) window are gathered by index."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 24
WINDOW = 4


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim, heads, shift):
        super().__init__()
        self.heads = heads
        self.shift = shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros(2 * WINDOW - 1, 2 * WINDOW - 1, heads))

    def window_index(self, side):
        """Flat token indices of shape [windows, window tokens], and the wrap region of every token."""
        line = (torch.arange(side) + self.shift) % side
        wrapped = torch.arange(side) + self.shift >= side
        flat = line[:, None] * side + line[None, :]
        region = wrapped[:, None] * 2 + wrapped[None, :]
        count = side // WINDOW
        flat = flat.view(count, WINDOW, count, WINDOW).transpose(1, 2).reshape(count * count, -1)
        region = region.view(count, WINDOW, count, WINDOW).transpose(1, 2).reshape(count * count, -1)
        return flat, region

    def position_bias(self):
        line = torch.arange(WINDOW)
        delta = line[:, None] - line[None, :] + WINDOW - 1
        rows = delta[:, None, :, None].expand(WINDOW, WINDOW, WINDOW, WINDOW)
        cols = delta[None, :, None, :].expand(WINDOW, WINDOW, WINDOW, WINDOW)
        bias = self.table[rows, cols]
        return bias.reshape(WINDOW * WINDOW, WINDOW * WINDOW, self.heads).permute(2, 0, 1)

    def forward(self, x):
        b, side, _, c = x.shape
        index, region = self.window_index(side)
        tokens = x.reshape(b, side * side, c)[:, index]
        windows, n = index.shape
        qkv = self.qkv(tokens).view(b, windows, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)
        scores = torch.einsum("bwhid,bwhjd->bwhij", q, k) * self.scale
        scores = scores + self.position_bias()
        allowed = region[:, :, None] == region[:, None, :]
        scores = scores.masked_fill(~allowed[None, :, None], float("-inf"))
        out = torch.einsum("bwhij,bwhjd->bwihd", scores.softmax(dim=-1), v)
        out = self.proj(out.reshape(b, windows * n, c))
        restore = torch.argsort(index.reshape(-1))
        return out[:, restore].view(b, side, side, c)


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, shift):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = ShiftedWindowAttention(dim, heads, shift)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Downsample(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        b, h, w, c = x.shape
        cells = x.view(b, h // 2, 2, w // 2, 2, c)
        cells = cells.permute(0, 1, 3, 4, 2, 5)
        cells = cells.reshape(b, h // 2, w // 2, 4 * c)
        return self.reduction(self.norm(cells))


class Swin(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.patch = nn.Linear(3 * 2 * 2, DIM)
        self.blocks0 = nn.ModuleList([Block(DIM, 3, 0), Block(DIM, 3, WINDOW // 2)])
        self.down = Downsample(DIM)
        self.blocks1 = nn.ModuleList([Block(2 * DIM, 4, 0), Block(2 * DIM, 4, WINDOW // 2)])
        self.norm = nn.LayerNorm(2 * DIM)
        self.head = nn.Linear(2 * DIM, classes)

    def forward(self, images):
        b, c, h, w = images.shape
        patches = images.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        x = self.patch(patches.reshape(b, h // 2, w // 2, c * 4))
        for block in self.blocks0:
            x = block(x)
        x = self.down(x)
        for block in self.blocks1:
            x = block(x)
        pooled = self.norm(x).mean(dim=(1, 2))
        return self.head(pooled)


def convert(source):
    out = {}
    for name, value in source.items():
        name = name.replace("stage0.", "blocks0.").replace("stage1.", "blocks1.")
        name = name.replace("merge.", "down.")
        name = name.replace("attn.mha.in_proj_", "attn.qkv.").replace("attn.mha.out_proj.", "attn.proj.")
        name = name.replace("mlp.0.", "mlp.up.").replace("mlp.2.", "mlp.down.")
        if name == "patch.weight":
            value = value.flatten(1)
        if name.endswith("table"):
            value = value.view(2 * WINDOW - 1, 2 * WINDOW - 1, -1)
        out[name] = value
    return out


def main():
    torch.manual_seed(21)
    model = Swin()
    model.load_state_dict(convert(torch.load("weights.pt", weights_only=True)))
    gen = torch.Generator().manual_seed(22)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    for step in range(3):
        images = torch.randn(4, 3, 32, 32, generator=gen)
        labels = torch.randint(0, 7, (4,), generator=gen)
        logits = model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f} logit {logits[0, 0].item():.6f}")


if __name__ == "__main__":
    main()
