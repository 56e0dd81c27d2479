"""ConvNeXt V2 with images as (batch, height, width, channels) all the way."""

import torch
from torch import nn
from torch.nn import functional as F


class Patchify(nn.Module):
    """Non-overlapping p x p patches as one linear map."""

    def __init__(self, n_in, n_out, p=2):
        super().__init__()
        self.p = p
        self.proj = nn.Linear(p * p * n_in, n_out)

    def forward(self, x):
        b, h, w, c = x.shape
        x = x.view(b, h // self.p, self.p, w // self.p, self.p, c)
        return self.proj(x.transpose(2, 3).flatten(3))


class DepthwiseConv(nn.Module):
    def __init__(self, c, k=7):
        super().__init__()
        self.k = k
        self.kernel = nn.Parameter(torch.zeros(k, k, c))
        self.bias = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        r = self.k // 2
        windows = F.pad(x, (0, 0, r, r, r, r)).unfold(1, self.k, 1).unfold(2, self.k, 1)
        return torch.einsum("bhwcij,ijc->bhwc", windows, self.kernel) + self.bias


class ResponseNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(c))
        self.beta = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        flat = x.flatten(1, 2)
        energy = flat.square().sum(dim=1, keepdim=True).sqrt()
        relative = energy / (energy.mean(dim=-1, keepdim=True) + 1e-6)
        flat = flat * (1 + self.gamma * relative) + self.beta
        return flat.view_as(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = DepthwiseConv(c)
        self.norm = nn.LayerNorm(c, eps=1e-6)
        self.expand = nn.Linear(c, 4 * c)
        self.grn = ResponseNorm(4 * c)
        self.shrink = nn.Linear(4 * c, c)

    def forward(self, x):
        y = F.gelu(self.expand(self.norm(self.dw(x))))
        return x + self.shrink(self.grn(y))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Patchify(3, 16), nn.LayerNorm(16, eps=1e-6))
        self.stage1 = nn.Sequential(Block(16))
        self.shrink = nn.Sequential(nn.LayerNorm(16, eps=1e-6), Patchify(16, 24))
        self.stage2 = nn.Sequential(Block(24), Block(24))
        self.norm = nn.LayerNorm(24, eps=1e-12)
        self.fc = nn.Linear(24, 5)

    def forward(self, images):
        x = self.stage1(self.stem(images.permute(0, 2, 3, 1).contiguous()))
        x = self.stage2(self.shrink(x))
        return self.fc(self.norm(x.mean(dim=(1, 2))))


def from_transformers(sd):
    sd = {k.removeprefix("convnextv2.").replace("encoder.stages.", "s"): v for k, v in sd.items()}
    out = {}

    def patch(dst, src):
        out[dst + ".proj.weight"] = sd[src + ".weight"].permute(0, 2, 3, 1).flatten(1)
        out[dst + ".proj.bias"] = sd[src + ".bias"]

    def same(dst, src):
        for leaf in ("weight", "bias"):
            out[f"{dst}.{leaf}"] = sd[f"{src}.{leaf}"]

    patch("stem.0", "embeddings.patch_embeddings")
    same("stem.1", "embeddings.layernorm")
    same("shrink.0", "s1.downsampling_layer.0")
    patch("shrink.1", "s1.downsampling_layer.1")
    for dst, src in (("stage1.0", "s0.layers.0"), ("stage2.0", "s1.layers.0"), ("stage2.1", "s1.layers.1")):
        out[dst + ".dw.kernel"] = sd[src + ".dwconv.weight"][:, 0].permute(1, 2, 0)
        out[dst + ".dw.bias"] = sd[src + ".dwconv.bias"]
        out[dst + ".grn.gamma"] = sd[src + ".grn.weight"].flatten()
        out[dst + ".grn.beta"] = sd[src + ".grn.bias"].flatten()
        same(dst + ".norm", src + ".layernorm")
        same(dst + ".expand", src + ".pwconv1")
        same(dst + ".shrink", src + ".pwconv2")
    same("norm", "layernorm")
    same("fc", "classifier")
    return out


def main():
    net = ConvNet()
    net.load_state_dict(from_transformers(torch.load("weights.pt")))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    g = torch.Generator().manual_seed(77)
    for i in range(3):
        images = torch.randn(4, 3, 16, 16, generator=g)
        labels = torch.randint(0, 5, (4,), generator=g)
        loss = F.cross_entropy(net(images), labels)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        print(f"batch {i}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
