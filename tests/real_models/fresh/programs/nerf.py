"""A radiance field: what its training needs."""

import torch
import torch.nn.functional as F
from modeling_nerf import Renderer

KEPT = ()


def build(attention):
    return Renderer()


def batch(step):
    generator = torch.Generator().manual_seed(4400 + step)
    direction = F.normalize(torch.randn(6, 3, generator=generator), dim=-1)
    depth = torch.linspace(0.5, 2.5, 8) + 0.1 * torch.rand(6, 8, generator=generator)
    return {
        "origin": 0.3 * torch.randn(6, 3, generator=generator),
        "direction": direction,
        "depth": depth,
        "draw": torch.rand(6, 4, generator=generator),
        "pixel": torch.rand(6, 3, generator=generator),
    }


def loss(model, inputs):
    rough, pixel = model(inputs["origin"], inputs["direction"], inputs["depth"], inputs["draw"])
    return F.mse_loss(rough, inputs["pixel"]) + F.mse_loss(pixel, inputs["pixel"])
