import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 24
WINDOW = 4


def window_partition(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def window_reverse(windows, w, h, wd):
    c = windows.shape[-1]
    x = windows.view(-1, h // w, wd // w, w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, wd, c)


def shift_mask(h, wd, w, shift):
    image = torch.zeros(1, h, wd, 1)
    slices = (slice(0, -w), slice(-w, -shift), slice(-shift, None))
    count = 0
    for rows in slices:
        for cols in slices:
            image[:, rows, cols, :] = count
            count += 1
    ids = window_partition(image, w).squeeze(-1)
    return ids[:, None, :] != ids[:, :, None]


class WindowAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, heads) * 0.5)
        coords = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij"))
        coords = coords.flatten(1)
        rel = coords[:, :, None] - coords[:, None, :]
        rel = rel + WINDOW - 1
        self.register_buffer("index", rel[0] * (2 * WINDOW - 1) + rel[1], persistent=False)

    def forward(self, x, mask):
        n = x.shape[1]
        bias = self.table[self.index.view(-1)].view(n, n, self.heads).permute(2, 0, 1)
        bias = bias[None].expand(x.shape[0], -1, -1, -1)
        if mask is not None:
            blocked = mask.repeat(x.shape[0] // mask.shape[0], 1, 1)
            bias = bias.masked_fill(blocked[:, None], float("-inf"))
        out, _ = self.mha(x, x, x, attn_mask=bias.reshape(-1, n, n), need_weights=False)
        return out


class Block(nn.Module):
    def __init__(self, dim, heads, shift):
        super().__init__()
        self.shift = shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm1(x)
        mask = None
        if self.shift:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
            mask = shift_mask(h, w, WINDOW, self.shift)
        y = self.attn(window_partition(y, WINDOW), mask)
        y = window_reverse(y, WINDOW, h, w)
        if self.shift:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x0 = x[:, 0::2, 0::2, :]
        x1 = x[:, 1::2, 0::2, :]
        x2 = x[:, 0::2, 1::2, :]
        x3 = x[:, 1::2, 1::2, :]
        return self.reduction(self.norm(torch.cat([x0, x1, x2, x3], dim=-1)))


class Swin(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, kernel_size=2, stride=2)
        self.stage0 = nn.Sequential(Block(DIM, 3, 0), Block(DIM, 3, WINDOW // 2))
        self.merge = PatchMerging(DIM)
        self.stage1 = nn.Sequential(Block(2 * DIM, 4, 0), Block(2 * DIM, 4, WINDOW // 2))
        self.norm = nn.LayerNorm(2 * DIM)
        self.head = nn.Linear(2 * DIM, classes)

    def forward(self, images):
        x = self.patch(images).permute(0, 2, 3, 1)
        x = self.stage0(x)
        x = self.merge(x)
        x = self.stage1(x)
        return self.head(self.norm(x).mean(dim=(1, 2)))


def build():
    torch.manual_seed(21)
    model = Swin()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1 and "table" not in name:
                p.mul_(2.0)
            if name.endswith("merge.norm.weight"):
                p.add_(0.3 * torch.randn_like(p))
    return model


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
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
