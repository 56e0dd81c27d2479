"""Momentum contrast: what its training needs."""

import torch
import torch.nn.functional as F
from modeling_contrast import Contrast

KEPT = ()


def build(attention):
    return Contrast()


def batch(step):
    generator = torch.Generator().manual_seed(3400 + step)
    image = torch.rand(4, 3, 12, 12, generator=generator)
    noise = 0.1 * torch.randn(2, 4, 3, 12, 12, generator=generator)
    return {"first": image + noise[0], "second": image.flip(-1) + noise[1]}


def loss(model, inputs):
    logits, key = model(inputs["first"], inputs["second"])
    labels = torch.zeros(logits.shape[0], dtype=torch.long)
    return F.cross_entropy(logits, labels), key
