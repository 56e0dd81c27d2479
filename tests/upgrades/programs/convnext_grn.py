"""Training of a small ConvNeXt V2, own code with channels last and patches that are folded out."""

import torch
from torch import nn
from torch.nn import functional as F


class Patches(nn.Module):
    """Convolution without overlap as linear layer on the pixels of a patch."""

    def __init__(self, inputs, outputs, size):
        super().__init__()
        self.size = size
        self.linear = nn.Linear(inputs * size * size, outputs)

    def forward(self, x):
        n, h, w, c = x.shape
        x = x.view(n, h // self.size, self.size, w // self.size, self.size, c)
        return self.linear(x.permute(0, 1, 3, 5, 2, 4).flatten(3))


class ResponseNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        energy = x.square().sum(dim=(1, 2), keepdim=True).sqrt()
        ratio = energy / (energy.mean(dim=-1, keepdim=True) + 1e-6)
        return x + self.weight * (x * ratio) + self.bias


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.up = nn.Linear(dim, 4 * dim)
        self.grn = ResponseNorm(4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        y = self.depthwise(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.down(self.grn(F.gelu(self.up(self.norm(y)))))


class Net(nn.Module):
    def __init__(self, depths=(1, 1, 2, 1), dims=(16, 24, 32, 40)):
        super().__init__()
        self.stem = nn.Sequential(Patches(3, dims[0], 4), nn.LayerNorm(dims[0], eps=1e-6))
        self.shrink = nn.ModuleList()
        for a, b in zip(dims, dims[1:]):
            self.shrink.append(nn.Sequential(nn.LayerNorm(a, eps=1e-6), Patches(a, b, 2)))
        self.stages = nn.ModuleList(nn.Sequential(*[Block(d) for _ in range(n)]) for n, d in zip(depths, dims))
        self.norm = nn.LayerNorm(dims[-1], eps=1e-6)
        self.head = nn.Linear(dims[-1], 5)

    def forward(self, images):
        x = self.stem(images.permute(0, 2, 3, 1))
        for i, stage in enumerate(self.stages):
            x = stage(self.shrink[i - 1](x) if i else x)
        return self.head(self.norm(x.mean(dim=(1, 2))))


def convert(state):
    new = {}
    for key, value in state.items():
        for old, name in (("conv_dw", "depthwise"), ("mlp.fc1", "up"), ("mlp.grn", "grn"), ("mlp.fc2", "down")):
            key = key.replace(old, name)
        key = key.replace("stem.0.", "stem.0.linear.").replace(".blocks", "")
        key = key.replace("head.norm", "norm").replace("head.fc", "head")
        if ".downsample." in key:
            stage = int(key.split(".")[1])
            key = f"shrink.{stage - 1}." + key.split(".downsample.")[1].replace("1.", "1.linear.")
        new[key] = value.flatten(1) if "linear.weight" in key else value
    return new


def batch(step):
    generator = torch.Generator().manual_seed(50 + step)
    coarse = torch.randn(6, 3, 8, 8, generator=generator)
    images = F.interpolate(coarse, scale_factor=8, mode="bilinear") + 0.2 * torch.randn(
        6, 3, 64, 64, generator=generator
    )
    return images, torch.randint(0, 5, (6,), generator=generator)


if __name__ == "__main__":
    model = Net()
    model.load_state_dict(convert(torch.load("weights.pt")))
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=5e-3, weight_decay=0.05
    )
    for step in range(3):
        images, labels = batch(step)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
