"""An auto-encoder with a book of codes: what its training needs."""

import torch
import torch.nn.functional as F
from modeling_vqvae import Coder

KEPT = ()
BETA = 0.25


def build(attention):
    return Coder()


def batch(step):
    generator = torch.Generator().manual_seed(5000 + step)
    return {"image": torch.rand(2, 3, 16, 16, generator=generator)}


def loss(model, inputs):
    drawn, commitment, _ = model(inputs["image"])
    return F.mse_loss(drawn, inputs["image"]) / 0.06 + BETA * commitment
