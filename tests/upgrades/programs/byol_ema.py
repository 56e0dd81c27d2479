import math

import torch
import torch.nn.functional as F
from torch import nn


def conv_bn(cin, cout, stride, groups=1, k=3):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout))


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.fc1 = nn.Linear(c, c // r)
        self.fc2 = nn.Linear(c // r, c)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        s = torch.sigmoid(self.fc2(F.silu(self.fc1(s))))
        return x * s[:, :, None, None]


class InvertedBottleneck(nn.Module):
    def __init__(self, c, out, stride, expand=2):
        super().__init__()
        self.expand = conv_bn(c, c * expand, 1, k=1)
        self.depthwise = conv_bn(c * expand, c * expand, stride, groups=c * expand)
        self.se = SqueezeExcite(c * expand)
        self.project = conv_bn(c * expand, out, 1, k=1)
        self.residual = stride == 1 and c == out

    def forward(self, x):
        y = F.silu(self.expand(x))
        y = F.silu(self.depthwise(y))
        y = self.project(self.se(y))
        return x + y if self.residual else y


def head(i, o, hidden=48):
    return nn.Sequential(nn.Linear(i, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, o))


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 8, 1)
        self.stages = nn.Sequential(
            InvertedBottleneck(8, 8, 1), InvertedBottleneck(8, 16, 2), InvertedBottleneck(16, 16, 1)
        )
        self.projector = head(16, 12)

    def forward(self, x):
        y = self.stages(F.silu(self.stem(x)))
        return self.projector(F.adaptive_avg_pool2d(y, 1).flatten(1))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = Branch(), Branch()
        self.target.load_state_dict(self.online.state_dict())
        self.predictor = head(12, 12)

    def forward(self, v1, v2):
        p1, p2 = self.predictor(self.online(v1)), self.predictor(self.online(v2))
        with torch.no_grad():
            z1, z2 = self.target(v1), self.target(v2)
        return cosine_loss(p1, z2) + cosine_loss(p2, z1)

    @torch.no_grad()
    def update_target(self, m):
        for po, pt in zip(self.online.parameters(), self.target.parameters()):
            pt.copy_(m * pt + (1 - m) * po)


def cosine_loss(p, z):
    p, z = F.normalize(p, dim=-1), F.normalize(z, dim=-1)
    return (2 - 2 * (p * z).sum(dim=-1)).mean()


def augment(img, gen):
    n = img.size(0)
    flip = torch.rand(n, generator=gen) < 0.5
    img = torch.where(flip[:, None, None, None], img.flip(-1), img)
    oy, ox = torch.randint(0, 5, (2,), generator=gen).tolist()
    img = F.pad(img, (2, 2, 2, 2), mode="reflect")[:, :, oy : oy + 12, ox : ox + 12]
    gain = 0.7 + 0.6 * torch.rand(n, 1, 1, 1, generator=gen)
    mean = img.mean(dim=(1, 2, 3), keepdim=True)
    return (img - mean) * gain + mean


def run(total=3, base=0.9):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    model = BYOL()
    trainable = [*model.online.parameters(), *model.predictor.parameters()]
    opt = torch.optim.SGD(trainable, lr=0.3, momentum=0.9, nesterov=True, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=total)
    for step in range(total):
        img = F.interpolate(torch.rand(8, 3, 4, 4, generator=gen), size=12, mode="bilinear")
        loss = model(augment(img, gen), augment(img, gen))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        m = 1 - (1 - base) * (math.cos(math.pi * step / total) + 1) / 2
        model.update_target(m)
        print(f"step {step + 1} loss {loss.item():.9f}")


run()
