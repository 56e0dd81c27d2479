"""Unsupervised optical flow, PWC style: feature pyramid, warping, cost volume, coarse to fine."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(37)
SIZE, BATCH, RADIUS = 24, 4, 2


def warp(image, flow):
    """Samples image at p + flow(p); flow in pixels, channel 0 is x."""
    _, _, h, w = image.shape
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    px = (xs + flow[:, 0]) * 2 / (w - 1) - 1
    py = (ys + flow[:, 1]) * 2 / (h - 1) - 1
    return F.grid_sample(image, torch.stack([px, py], dim=-1), padding_mode="border", align_corners=True)


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, padding=1), nn.LeakyReLU(0.1))


class Pyramid(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.down1 = nn.Sequential(conv(1, widths[0], 2), conv(widths[0], widths[0]))
        self.down2 = nn.Sequential(conv(widths[0], widths[1], 2), conv(widths[1], widths[1]))

    def forward(self, x):
        fine = self.down1(x)
        return self.down2(fine), fine


class CostVolume(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, f1, f2):
        r, (h, w) = self.radius, f1.shape[-2:]
        padded = F.pad(f2, (r, r, r, r))
        costs = []
        for dy in range(2 * r + 1):
            for dx in range(2 * r + 1):
                costs.append((f1 * padded[:, :, dy : dy + h, dx : dx + w]).mean(dim=1))
        return F.leaky_relu(torch.stack(costs, dim=1), 0.1)


class FlowNet(nn.Module):
    def __init__(self, widths=(12, 16)):
        super().__init__()
        self.pyramid = Pyramid(widths)
        self.cost = CostVolume(RADIUS)
        n_cost = (2 * RADIUS + 1) ** 2
        self.estimators = nn.ModuleList(
            nn.Sequential(conv(n_cost + w + 2, 16), nn.Conv2d(16, 2, 3, padding=1)) for w in widths[::-1]
        )

    def forward(self, im1, im2):
        flow, flows = None, []
        for f1, f2, estimator in zip(self.pyramid(im1), self.pyramid(im2), self.estimators):
            if flow is None:
                flow = f1.new_zeros(len(f1), 2, *f1.shape[-2:])
            else:
                flow = 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False)
                f2 = warp(f2, flow)
            volume = self.cost(f1, f2)
            flow = flow + estimator(torch.cat([volume, f1, flow], dim=1))
            flows.append(flow)
        return flows


def charbonnier(x, eps=1e-3):
    return (x**2 + eps**2).sqrt()


def unsup_loss(flow, im1, im2):
    im1, im2 = (F.interpolate(im, flow.shape[-2:], mode="area") for im in (im1, im2))
    photo = charbonnier(warp(im2, flow) - im1).mean()
    smooth = 0.0
    for dim in (2, 3):
        edge = torch.exp(-5 * im1.diff(dim=dim).abs())
        smooth = smooth + (edge * charbonnier(flow.diff(dim=dim))).mean()
    return photo + 0.1 * smooth


def moving_blobs(gen):
    texture = F.avg_pool2d(torch.rand(BATCH, 1, SIZE + 8, SIZE + 8, generator=gen), 3, 1, padding=1) * 2
    shift = torch.randint(-2, 3, (BATCH, 2), generator=gen).tolist()
    second = [t[:, 4 - dy : 4 - dy + SIZE, 4 - dx : 4 - dx + SIZE] for t, (dx, dy) in zip(texture, shift)]
    return texture[:, :, 4 : 4 + SIZE, 4 : 4 + SIZE], torch.stack(second)


gen = torch.Generator().manual_seed(10)
model = FlowNet()
decayed = [p for p in model.parameters() if p.ndim > 1]
plain = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": decayed, "weight_decay": 4e-3}, {"params": plain, "weight_decay": 0.0}]
opt = torch.optim.Adam(groups, lr=2e-3, amsgrad=True)
for step in range(3):
    im1, im2 = moving_blobs(gen)
    loss = sum(wt * unsup_loss(flow, im1, im2) for wt, flow in zip((0.4, 1.0), model(im1, im2)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
