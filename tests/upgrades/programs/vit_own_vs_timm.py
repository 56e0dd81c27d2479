"""timm VisionTransformer against own ViT with patches by unfold + linear and separate q, k, v."""

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim, eps=1e-6)
        self.sa = SelfAttention(dim, heads)
        self.ln2 = nn.LayerNorm(dim, eps=1e-6)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = x + self.ff(self.ln2(x))
        return x


class OwnViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(48, 32)
        self.cls = nn.Parameter(torch.zeros(1, 1, 32))
        self.pos = nn.Parameter(torch.zeros(1, 17, 32))
        self.body = nn.Sequential(Block(32, 4), Block(32, 4))
        self.norm = nn.LayerNorm(32, eps=1e-6)
        self.head = nn.Linear(32, 6)

    def forward(self, img):
        p = F.unfold(img, 4, stride=4).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(img), -1, -1), self.patch(p)], 1) + self.pos
        return self.head(self.norm(self.body(x))[:, 0])


def fill(model):
    sd = torch.load("weights.pt")
    new = {"cls": sd["cls_token"], "pos": sd["pos_embed"]}
    for w in ("weight", "bias"):
        new[f"patch.{w}"] = sd[f"patch_embed.proj.{w}"].flatten(1) if w == "weight" else sd["patch_embed.proj.bias"]
        new[f"norm.{w}"], new[f"head.{w}"] = sd[f"norm.{w}"], sd[f"head.{w}"]
        for i in range(2):
            s, d = f"blocks.{i}.", f"body.{i}."
            for name, part in zip("qkv", sd[s + f"attn.qkv.{w}"].chunk(3)):
                new[d + f"sa.{name}.{w}"] = part
            for a, b in (
                ("attn.proj", "sa.o"),
                ("norm1", "ln1"),
                ("norm2", "ln2"),
                ("mlp.fc1", "ff.0"),
                ("mlp.fc2", "ff.2"),
            ):
                new[f"{d}{b}.{w}"] = sd[f"{s}{a}.{w}"]
    model.load_state_dict(new)


model = OwnViT()
fill(model)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
gen = torch.Generator().manual_seed(4)
for step in range(3):
    x = torch.randn(3, 3, 16, 16, generator=gen)
    y = torch.randint(0, 6, (3,), generator=gen)
    loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    print(f"loss[{step}] = {loss.item():.9f}")
