"""A detector without anchors: a pyramid of features, one head for all its levels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDES = (4, 8)


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(2 * width)

    def forward(self, image):
        x = F.relu(self.norm1(self.stem(image)))
        large = F.relu(self.norm2(self.conv2(x)))
        small = F.relu(self.norm3(self.conv3(large)))
        return large, small


class Pyramid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lateral_large = nn.Conv2d(width, width, 1)
        self.lateral_small = nn.Conv2d(2 * width, width, 1)
        self.smooth_large = nn.Conv2d(width, width, 3, padding=1)
        self.smooth_small = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, large, small):
        small = self.lateral_small(small)
        large = self.lateral_large(large) + F.interpolate(small, scale_factor=2, mode="nearest")
        return self.smooth_large(large), self.smooth_small(small)


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.score = nn.Conv2d(width, classes, 3, padding=1)
        self.box = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, scale):
        x = F.relu(self.norm(self.conv(x)))
        sides = torch.exp((self.box(x) * scale).clamp(max=4))
        return self.score(x), sides


class Detector(nn.Module):
    def __init__(self, width=16, classes=3):
        super().__init__()
        self.backbone = Backbone(width)
        self.pyramid = Pyramid(width)
        self.head = Head(width, classes)
        self.scales = nn.Parameter(torch.ones(2))

    def forward(self, image):
        levels = self.pyramid(*self.backbone(image))
        scores, boxes = [], []
        for level, (x, stride) in enumerate(zip(levels, STRIDES, strict=True)):
            score, sides = self.head(x, self.scales[level])
            scores.append(score.flatten(2).transpose(1, 2))
            boxes.append((sides * stride).flatten(2).transpose(1, 2))
        return torch.cat(scores, dim=1), torch.cat(boxes, dim=1)
