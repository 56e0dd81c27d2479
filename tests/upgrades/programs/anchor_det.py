"""One-stage detector: two-level pyramid, IoU anchor matching, focal + smooth L1 loss, bf16 autocast trunk."""

import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDES, SIZES, RATIOS, CLASSES = (4, 8), (6.0, 14.0), (0.5, 1.0, 2.0), 3


class Pyramid(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.c1 = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.GELU(), nn.Conv2d(c, c, 3, 2, 1), nn.GELU())
        self.c2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, 2, 1), nn.GELU())
        self.lat1, self.lat2, self.smooth = nn.Conv2d(c, c, 1), nn.Conv2d(2 * c, c, 1), nn.Conv2d(c, c, 3, 1, 1)

    def forward(self, img):
        f1 = self.c1(img)
        f2 = self.c2(f1)
        p2 = self.lat2(f2)
        p1 = self.lat1(f1) + F.interpolate(p2, scale_factor=2.0, mode="nearest")
        return [self.smooth(p1), p2]


class Head(nn.Module):
    def __init__(self, c, per_anchor):
        super().__init__()
        self.per_anchor, self.conv = per_anchor, nn.Conv2d(c, c, 3, 1, 1)
        self.pred = nn.Conv2d(c, len(RATIOS) * per_anchor, 3, 1, 1)

    def forward(self, levels):
        outs = []
        for f in levels:
            y = self.pred(F.relu(self.conv(f)))
            b, _, h, w = y.shape
            y = y.view(b, len(RATIOS), self.per_anchor, h, w).permute(0, 3, 4, 1, 2)
            outs.append(y.reshape(b, -1, self.per_anchor))
        return torch.cat(outs, dim=1)


class Detector(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.fpn = Pyramid(c)
        self.cls, self.box = Head(c, CLASSES), Head(c, 4)
        nn.init.constant_(self.cls.pred.bias, -2.0)

    def forward(self, img):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            levels = [f.float() for f in self.fpn(img)]
        return self.cls(levels), self.box(levels)


def make_anchors(hw):
    out = []
    for stride, size in zip(STRIDES, SIZES):
        n = hw // stride
        c = (torch.arange(n) + 0.5) * stride
        cy, cx = torch.meshgrid(c, c, indexing="ij")
        r = torch.tensor(RATIOS).sqrt()
        w, h = size / r, size * r
        ctr = torch.stack([cx, cy], -1).view(-1, 1, 2).expand(-1, len(RATIOS), 2)
        out.append(torch.cat([ctr, torch.stack([w, h], -1).expand(n * n, -1, 2)], -1).reshape(-1, 4))
    return torch.cat(out)


def corners(b):
    return torch.cat([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)


def iou(a, b):
    a, b = corners(a)[:, None], corners(b)[None]
    lt, rb = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area_a, area_b = (a[..., 2:] - a[..., :2]).prod(-1), (b[..., 2:] - b[..., :2]).prod(-1)
    return inter / (area_a + area_b - inter)


def assign(anchors, boxes, labels):
    overlap = iou(anchors, boxes)
    best, idx = overlap.max(dim=1)
    best = best.index_fill(0, overlap.argmax(dim=0), 1.0)
    cls = F.one_hot(labels[idx], CLASSES).float() * (best >= 0.4)[:, None]
    g = boxes[idx]
    reg = torch.cat([(g[:, :2] - anchors[:, :2]) / anchors[:, 2:], (g[:, 2:] / anchors[:, 2:]).log()], -1)
    return cls, reg, best >= 0.4, (best < 0.4) & (best > 0.3)


def focal(logits, t, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    pt, a = p * t + (1 - p) * (1 - t), alpha * t + (1 - alpha) * (1 - t)
    return a * (1 - pt) ** gamma * F.binary_cross_entropy_with_logits(logits, t, reduction="none")


torch.manual_seed(8)
det, anchors = Detector(), make_anchors(32)
opt = torch.optim.SGD(det.parameters(), lr=0.05, momentum=0.9)
for step in range(1, 4):
    img, loss = torch.randn(3, 3, 32, 32), 0.0
    cls_out, box_out = det(img)
    for i in range(3):
        boxes = torch.cat([8 + 16 * torch.rand(2, 2), 5 + 9 * torch.rand(2, 2)], -1)
        cls_t, reg_t, fg, skip = assign(anchors, boxes, torch.randint(0, CLASSES, (2,)))
        n_pos = fg.sum().clamp(min=1)
        l_cls = focal(cls_out[i], cls_t)[~skip].sum() / n_pos
        l_box = F.smooth_l1_loss(box_out[i][fg], reg_t[fg], reduction="sum", beta=0.1) / n_pos
        loss = loss + (l_cls + 0.5 * l_box) / 3
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(det.parameters(), 2.0)
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
