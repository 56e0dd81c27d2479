# PointNet (Qi et al. 2017) with both transform nets: object class and part labels of toy shapes
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
N_CLASS, N_PART, B, N = 3, 3, 12, 64


def conv_bn(cin, cout, act=True):
    layers = [nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout)]
    return nn.Sequential(*layers, nn.ReLU()) if act else nn.Sequential(*layers)


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(conv_bn(k, 24), conv_bn(24, 48))
        self.fc1, self.fc2 = nn.Linear(48, 32), nn.Linear(32, k * k)
        nn.init.normal_(self.fc2.weight, std=0.02)
        nn.init.zeros_(self.fc2.bias)

    def forward(self, x):
        pooled = self.mlp(x).amax(dim=-1)
        delta = self.fc2(F.relu(self.fc1(pooled)))
        return delta.view(-1, self.k, self.k) + torch.eye(self.k)


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stn, self.fstn = TNet(3), TNet(width)
        self.conv1, self.conv2 = conv_bn(3, width), conv_bn(width, 32)
        self.conv3 = conv_bn(32, 64, act=False)

    def forward(self, x):
        t_in = self.stn(x)
        x = torch.einsum("bcn,bcd->bdn", x, t_in)
        x = self.conv1(x)
        t_feat = self.fstn(x)
        local = torch.einsum("bcn,bcd->bdn", x, t_feat)
        deep = self.conv3(self.conv2(local))
        return local, deep.amax(dim=2), t_feat


class PartHead(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.mix, self.out = conv_bn(width + 64 + N_CLASS, 32), nn.Conv1d(32, N_PART, 1)

    def forward(self, local, glob, cls):
        context = torch.cat([glob, F.one_hot(cls, N_CLASS).float()], dim=1)
        context = context.unsqueeze(2).expand(-1, -1, local.shape[2])
        return self.out(self.mix(torch.cat([local, context], dim=1)))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.parts = Encoder(), PartHead()
        self.classify = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, N_CLASS))

    def forward(self, pts, cls):
        local, glob, t_feat = self.encoder(pts.transpose(1, 2))
        return self.classify(glob), self.parts(local, glob, cls), t_feat


def make_shapes(g):
    cls = torch.arange(B) % N_CLASS
    phi, z = torch.rand(B, N, generator=g) * 2 * math.pi, torch.rand(B, N, generator=g) * 2 - 1
    radius = torch.stack([(1 - z**2).sqrt(), torch.ones_like(z), (1 - z) / 2])[cls, torch.arange(B)]
    part = (z > -0.3).long() + (z > 0.4).long()
    return torch.stack([radius * phi.cos(), radius * phi.sin(), z], dim=-1), cls, part


def augment(pts, g):
    a = torch.rand(B, generator=g) * 2 * math.pi
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    rot = torch.stack([a.cos(), -a.sin(), zero, a.sin(), a.cos(), zero, zero, zero, one], dim=-1).view(B, 3, 3)
    pts = pts @ rot + 0.02 * torch.randn(pts.shape, generator=g)
    pts = pts - pts.mean(dim=1, keepdim=True)
    return pts / pts.norm(dim=-1).amax(dim=1)[:, None, None]


g = torch.Generator().manual_seed(5)
model = PointNet()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=6)
for step in range(1, 4):
    pts, cls, part = make_shapes(g)
    cls_logits, part_logits, t_feat = model(augment(pts, g), cls)
    cls_loss = F.cross_entropy(cls_logits, cls, label_smoothing=0.1)
    part_loss = F.cross_entropy(part_logits, part)
    gap = torch.eye(t_feat.shape[1]) - t_feat @ t_feat.mT
    loss = cls_loss + 0.5 * part_loss + 0.05 * gap.pow(2).sum(dim=(1, 2)).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    sched.step()
    print(f"step {step} loss {loss.item():.9f}")
