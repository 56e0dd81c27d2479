"""A radiance field: colour and density along rays, drawn twice, the second time where the first saw something."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def waves(points, octaves):
    angles = points[..., None] * 2.0 ** torch.arange(octaves)
    return torch.cat((points, angles.sin().flatten(-2), angles.cos().flatten(-2)), dim=-1)


class Field(nn.Module):
    def __init__(self, width=24, octaves=4, view_octaves=2):
        super().__init__()
        self.octaves = octaves
        self.view_octaves = view_octaves
        inner = 3 + 6 * octaves
        self.first = nn.Linear(inner, width)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width + inner, width)
        self.density = nn.Linear(width, 1)
        self.view = nn.Linear(width + 3 + 6 * view_octaves, width)
        self.color = nn.Linear(width, 3)

    def forward(self, points, direction):
        place = waves(points, self.octaves)
        x = torch.relu(self.first(place))
        x = torch.relu(self.second(x))
        x = torch.relu(self.third(torch.cat((x, place), dim=-1)))
        density = self.density(x).squeeze(-1)
        seen = waves(direction, self.view_octaves)[:, None].expand(-1, points.shape[1], -1)
        color = torch.sigmoid(self.color(torch.relu(self.view(torch.cat((x, seen), dim=-1)))))
        return density.float(), color.float()


def composite(density, color, depth):
    """Return what a ray sees, and the share of each of its points."""
    gap = torch.cat((depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 2.0)), dim=-1)
    alpha = 1 - torch.exp(-F.softplus(density) * gap)
    free = torch.cumprod(1 - alpha + 1e-10, dim=-1)
    free = torch.cat((torch.ones_like(free[:, :1]), free[:, :-1]), dim=-1)
    share = alpha * free
    pixel = (share[..., None] * color).sum(dim=1)
    return pixel + (1 - share.sum(dim=1, keepdim=True)), share


def resampled(depth, share, draw):
    """Return depths where the shares are large, together with the known ones."""
    chance = share.detach() + 1e-3
    total = torch.cumsum(chance / chance.sum(dim=-1, keepdim=True), dim=-1)
    index = torch.searchsorted(total, draw).clamp(max=depth.shape[1] - 1)
    found = depth.gather(1, index) + 0.05 * draw
    return torch.cat((depth, found), dim=-1).sort(dim=-1).values


class Renderer(nn.Module):
    def __init__(self):
        super().__init__()
        self.coarse = Field()
        self.fine = Field()

    def forward(self, origin, direction, depth, draw):
        points = origin[:, None] + depth[..., None] * direction[:, None]
        rough, share = composite(*self.coarse(points, direction), depth)
        depth = resampled(depth, share, draw)
        points = origin[:, None] + depth[..., None] * direction[:, None]
        pixel, _ = composite(*self.fine(points, direction), depth)
        return rough, pixel
