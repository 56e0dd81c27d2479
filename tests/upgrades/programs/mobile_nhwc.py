"""Image regression with a mobile network whose weights and activations have the layout of TensorFlow."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv(nn.Module):
    """Kernel (height, width, input, output), of depthwise ones (height, width, channel, 1)."""

    def __init__(self, shape, stride=1, depthwise=False):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(shape))
        self.stride, self.depthwise = stride, depthwise
        channels = shape[2] if depthwise else shape[3]
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        whole = max(self.kernel.shape[0] - self.stride, 0)
        before = whole // 2
        x = F.pad(x, (0, 0, before, whole - before, before, whole - before))
        kernel = self.kernel.permute(2, 3, 0, 1) if self.depthwise else self.kernel.permute(3, 2, 0, 1)
        groups = len(kernel) if self.depthwise else 1
        y = F.conv2d(x.permute(0, 3, 1, 2), kernel, stride=self.stride, groups=groups).permute(0, 2, 3, 1)
        mean = y.mean(dim=(0, 1, 2))
        variance = y.var(dim=(0, 1, 2), correction=0)
        return (y - mean) * torch.rsqrt(variance + 1e-3) * self.gamma + self.beta


class Squeeze(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.down = nn.Linear(channels, reduced)
        self.up = nn.Linear(reduced, channels)

    def forward(self, x):
        y = x.mean(dim=(1, 2), keepdim=True)
        return x * F.relu6(self.up(F.relu(self.down(y))) + 3) / 6


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 3 * inputs
        self.expand = Conv((1, 1, inputs, wide))
        self.depth = Conv((3, 3, wide, 1), stride=stride, depthwise=True)
        self.squeeze = Squeeze(wide, 8)
        self.project = Conv((1, 1, wide, outputs))
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        y = F.hardswish(self.depth(F.hardswish(self.expand(x))))
        y = self.project(self.squeeze(y))
        return x + y if self.same else y


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv((3, 3, 3, 8), stride=2)
        self.blocks = nn.Sequential(Inverted(8, 8, 1), Inverted(8, 12, 2), Inverted(12, 12, 1))
        self.head = nn.Linear(12 * 16, 2)

    def forward(self, x):
        x = self.blocks(F.hardswish(self.stem(x)))
        return self.head(x.flatten(1))


def convert(state):
    new = {}
    for key, value in state.items():
        if "running" in key or "num_batches" in key:
            continue
        if key.endswith("conv.weight"):
            value = value.permute(2, 3, 0, 1) if "depth" in key else value.permute(2, 3, 1, 0)
            new[key.replace("conv.weight", "kernel")] = value
        elif "norm" in key:
            new[key.replace("norm.weight", "gamma").replace("norm.bias", "beta")] = value
        elif key == "head.weight":
            new[key] = value.view(2, 12, 4, 4).permute(0, 2, 3, 1).flatten(1)
        else:
            new[key] = value.flatten(1) if value.ndim == 4 else value
    return new


def batch(step):
    generator = torch.Generator().manual_seed(20 + step)
    images = torch.rand(8, 3, 16, 16, generator=generator)
    across = torch.linspace(-1, 1, 16)
    weight = images[:, 0] ** 4
    target = torch.stack([(weight * across).mean((1, 2)), (weight * across[:, None]).mean((1, 2))], dim=-1)
    return images.permute(0, 2, 3, 1), 20 * target


if __name__ == "__main__":
    model = Mobile()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.9, eps=1e-3)
    for step in range(3):
        images, target = batch(step)
        loss = F.mse_loss(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
