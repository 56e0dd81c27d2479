"""A generative adversarial network: what its training needs."""

import torch
from modeling_gan import Gan

KEPT = ("_u", "_v")


def build(attention):
    return Gan()


def batch(step):
    generator = torch.Generator().manual_seed(2500 + step)
    return {
        "image": torch.rand(4, 3, 8, 8, generator=generator) * 2 - 1,
        "latent": torch.randn(4, 8, generator=generator),
        "other": torch.randn(4, 8, generator=generator),
    }
