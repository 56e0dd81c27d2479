"""A small set-prediction detector: frozen-norm backbone, queries, bipartite matching, losses at every decoder layer."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, QUERIES, WIDTH, HEADS = 3, 5, 32, 4


class FrozenNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        g = torch.Generator().manual_seed(channels)
        self.register_buffer("weight", 1.0 + 0.1 * torch.randn(channels, generator=g))
        self.register_buffer("bias", 0.1 * torch.randn(channels, generator=g))
        self.register_buffer("mean", 0.1 * torch.randn(channels, generator=g))
        self.register_buffer("var", 0.3 + 0.2 * torch.rand(channels, generator=g))

    def forward(self, x):
        shape = (1, -1, 1, 1)
        scale = self.weight * torch.rsqrt(self.var + 1e-5)
        return x * scale.view(shape) + (self.bias - self.mean * scale).view(shape)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm1 = FrozenNorm(16)
        self.conv2 = nn.Conv2d(16, WIDTH, 3, stride=2, padding=1, bias=False)
        self.norm2 = FrozenNorm(WIDTH)

    def forward(self, images, padding):
        h = F.relu(self.norm1(self.conv1(images)))
        h = F.relu(self.norm2(self.conv2(h)))
        padding = F.interpolate(padding[:, None].float(), size=h.shape[-2:]).squeeze(1).bool()
        return h, padding


class SinePosition(nn.Module):
    """Positions counted over the unpadded part, scaled to a full turn."""

    def forward(self, padding):
        inside = (~padding).float()
        y, x = inside.cumsum(1), inside.cumsum(2)
        y = y / (y[:, -1:, :] + 1e-6) * 2 * math.pi
        x = x / (x[:, :, -1:] + 1e-6) * 2 * math.pi
        count = WIDTH // 2
        scale = 100.0 ** (2 * (torch.arange(count) // 2) / count)
        px, py = x[..., None] / scale, y[..., None] / scale
        px = torch.stack([px[..., 0::2].sin(), px[..., 1::2].cos()], dim=-1).flatten(-2)
        py = torch.stack([py[..., 0::2].sin(), py[..., 1::2].cos()], dim=-1).flatten(-2)
        return torch.cat([py, px], dim=-1).flatten(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, position, padding):
        q = k = x + position
        x = self.norm1(x + self.attn(q, k, x, key_padding_mask=padding, need_weights=False)[0])
        return self.norm2(x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, query, memory, position, padding):
        q = k = x + query
        x = self.norm1(x + self.self_attn(q, k, x, need_weights=False)[0])
        read = self.cross_attn(x + query, memory + position, memory, key_padding_mask=padding, need_weights=False)[0]
        x = self.norm2(x + read)
        return self.norm3(x + self.ff(x))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.position = SinePosition()
        self.encoder = EncoderLayer()
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(2))
        self.query = nn.Embedding(QUERIES, WIDTH)
        self.classify = nn.Linear(WIDTH, CLASSES + 1)
        self.locate = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def forward(self, images, padding):
        features, padding = self.backbone(images, padding)
        position, padding = self.position(padding), padding.flatten(1)
        memory = self.encoder(features.flatten(2).transpose(1, 2), position, padding)
        query = self.query.weight.expand(len(images), -1, -1)
        x = torch.zeros_like(query)
        outputs = []
        for layer in self.decoder:
            x = layer(x, query, memory, position, padding)
            outputs.append((self.classify(x), self.locate(x).sigmoid()))
        return outputs


def corners(boxes):
    center, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat([center - 0.5 * size, center + 0.5 * size], dim=-1)


def generalized_iou(a, b):
    """Of every box of a with every box of b, both as corners."""
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
    inner = (torch.minimum(a[:, None, 2:], b[:, 2:]) - torch.maximum(a[:, None, :2], b[:, :2])).clamp(min=0).prod(-1)
    union = area_a[:, None] + area_b - inner
    hull = (torch.maximum(a[:, None, 2:], b[:, 2:]) - torch.minimum(a[:, None, :2], b[:, :2])).prod(-1)
    return inner / union - (hull - union) / hull


@torch.no_grad()
def match(logits, boxes, labels, targets):
    """The assignment of queries to objects of the least cost (few objects: all are tried)."""
    cost = -logits.softmax(-1)[:, labels]
    cost = cost + 5.0 * torch.cdist(boxes, targets, p=1)
    cost = cost - 2.0 * generalized_iou(corners(boxes), corners(targets))
    objects = torch.arange(len(labels))
    choices = torch.tensor(list(itertools.permutations(range(len(boxes)), len(labels))))
    return choices[cost[choices, objects].sum(-1).argmin()]


def set_loss(outputs, truth):
    logits, boxes = outputs
    goal = torch.full(logits.shape[:2], CLASSES)
    count = sum(len(labels) for labels, _ in truth)
    l1, giou = 0.0, 0.0
    for row, (labels, targets) in enumerate(truth):
        chosen = match(logits[row], boxes[row], labels, targets)
        goal[row, chosen] = labels
        picked = boxes[row, chosen]
        l1 = l1 + (picked - targets).abs().sum() / count
        giou = giou + (1 - generalized_iou(corners(picked), corners(targets)).diagonal()).sum() / count
    weight = torch.ones(CLASSES + 1)
    weight[CLASSES] = 0.1
    return F.cross_entropy(logits.flatten(0, 1), goal.flatten(), weight=weight) + 5.0 * l1 + 2.0 * giou


def make_batch(step):
    g = torch.Generator().manual_seed(300 + step)
    images = 0.3 * torch.randn(3, 3, 24, 24, generator=g)
    padding = torch.zeros(3, 24, 24, dtype=torch.bool)
    truth = []
    for row, (height, width) in enumerate([(24, 24), (16, 24), (24, 20)]):
        padding[row, height:], padding[row, :, width:] = True, True
        labels = torch.randperm(CLASSES, generator=g)[: 1 + row]
        center = 0.3 + 0.4 * torch.rand(len(labels), 2, generator=g)
        size = 0.2 + 0.3 * torch.rand(len(labels), 2, generator=g)
        boxes = torch.cat([center, size], dim=-1)
        for label, (x0, y0, x1, y1) in zip(labels.tolist(), corners(boxes).tolist()):
            images[row, label, int(y0 * height) : int(y1 * height) + 1, int(x0 * width) : int(x1 * width) + 1] += 1.5
        images[row] = images[row].masked_fill(padding[row], 0.0)
        truth.append((labels, boxes))
    return images, padding, truth


def main():
    torch.manual_seed(77)
    model = Detector()
    slow = [p for n, p in model.named_parameters() if n.startswith("backbone.")]
    fast = [p for n, p in model.named_parameters() if not n.startswith("backbone.")]
    groups = [{"params": fast}, {"params": slow, "lr": 5e-4}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, weight_decay=0.05, eps=1e-4)
    for step in range(3):
        optimizer.zero_grad()
        shown = 0.0
        for part in range(2):
            images, padding, truth = make_batch(2 * step + part)
            loss = sum(set_loss(outputs, truth) for outputs in model(images, padding)) / 2
            loss.backward()
            shown += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} loss {shown:.9f} norm {norm.item():.9f}")


if __name__ == "__main__":
    main()
