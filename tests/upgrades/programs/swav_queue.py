"""SwAV: online clustering of multi-crop views with Sinkhorn codes, a queue of old features, and LARS."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CODES, WIDTH, BATCH = 8, 16, 6
CROPS = (16, 16, 8, 8)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(24)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        h = F.relu(self.norm2(self.conv2(h)))
        return h.mean(dim=(2, 3))


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(24, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, WIDTH)

    def forward(self, h):
        return F.normalize(self.out(F.relu(self.norm(self.hidden(h)))), dim=-1)


class Queue(nn.Module):
    """The newest features first, one line for each of the two large crops."""

    def __init__(self, length):
        super().__init__()
        self.register_buffer("features", torch.zeros(2, length, WIDTH))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, crop, features):
        count = len(features)
        self.features[crop, count:] = self.features[crop, :-count].clone()
        self.features[crop, :count] = features
        if crop == 1:
            self.filled += count

    def ready(self):
        return bool(self.filled >= self.features.shape[1])


class SwAV(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.projector = Projector()
        self.prototypes = nn.Linear(WIDTH, CODES, bias=False)
        self.queue = Queue(2 * BATCH)

    def forward(self, crops):
        large = self.encoder(torch.cat(crops[:2]))
        small = self.encoder(torch.cat(crops[2:]))
        features = self.projector(torch.cat([large, small]))
        return features, self.prototypes(features)


@torch.no_grad()
def sinkhorn(scores, epsilon=0.2, rounds=3):
    """Codes with equal shares of the prototypes (rows: samples)."""
    q = torch.exp(scores / epsilon).t()
    q /= q.sum()
    codes, samples = q.shape
    for _ in range(rounds):
        q /= q.sum(dim=1, keepdim=True)
        q /= codes
        q /= q.sum(dim=0, keepdim=True)
        q /= samples
    return (q * samples).t()


def swapped_loss(model, features, scores, temperature=0.2):
    loss = 0.0
    views = scores.chunk(len(CROPS))
    for crop in range(2):
        own = features.detach().chunk(len(CROPS))[crop]
        pool = views[crop].detach()
        if model.queue.ready():
            pool = torch.cat([model.queue.features[crop] @ model.prototypes.weight.detach().t(), pool])
        codes = sinkhorn(pool)[-len(own) :]
        model.queue.push(crop, own)
        others = [views[other] for other in range(len(CROPS)) if other != crop]
        terms = [-(codes * F.log_softmax(view / temperature, dim=1)).sum(1).mean() for view in others]
        loss = loss + sum(terms) / len(terms)
    return loss / 2


class LARS(torch.optim.Optimizer):
    """Momentum with the step of every matrix scaled by the ratio of weight and gradient norms."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-3, trust=0.02):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                update = p.grad
                if p.ndim > 1:
                    update = update + group["weight_decay"] * p
                    ratio = group["trust"] * p.norm() / (update.norm() + 1e-8)
                    update = update * ratio
                state = self.state[p]
                if "speed" not in state:
                    state["speed"] = torch.zeros_like(p)
                state["speed"].mul_(group["momentum"]).add_(update)
                p.add_(state["speed"], alpha=-group["lr"])


def augment(images, size, generator):
    top, left = torch.randint(0, 24 - size + 1, (2,), generator=generator).tolist()
    crops = images[:, :, top : top + size, left : left + size]
    flipped = torch.rand(len(images), generator=generator) < 0.5
    crops = torch.where(flipped[:, None, None, None], crops.flip(-1), crops)
    contrast = 0.7 + 0.6 * torch.rand(len(images), 1, 1, 1, generator=generator)
    mean = crops.mean(dim=(1, 2, 3), keepdim=True)
    return (crops - mean) * contrast + mean


def make_images(generator):
    kind = torch.randint(0, 4, (BATCH,), generator=generator)
    wave = torch.linspace(0, 2 * math.pi, 24)
    pattern = torch.sin((1 + kind)[:, None, None] * wave[:, None] + kind[:, None, None] * wave[None, :])
    color = torch.rand(BATCH, 3, 1, 1, generator=generator)
    return color * pattern[:, None] + 0.3 * torch.randn(BATCH, 3, 24, 24, generator=generator)


@torch.no_grad()
def normalize_prototypes(model):
    model.prototypes.weight.copy_(F.normalize(model.prototypes.weight, dim=1))


def main():
    torch.manual_seed(19)
    generator = torch.Generator().manual_seed(23)
    model = SwAV()
    frozen = {"on": True}
    model.prototypes.weight.register_hook(lambda grad: torch.zeros_like(grad) if frozen["on"] else grad)
    optimizer = LARS(model.parameters(), lr=0.5)
    for step in range(5):
        frozen["on"] = step < 1
        optimizer.param_groups[0]["lr"] = 0.5 * (1 + math.cos(math.pi * step / 8)) / 2
        normalize_prototypes(model)
        images = make_images(generator)
        features, scores = model([augment(images, size, generator) for size in CROPS])
        loss = swapped_loss(model, features, scores)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
