"""A variational auto-encoder of images."""

import torch
import torch.nn.functional as F
from modeling_vae import Vae

KEPT = ()


def build(attention):
    return Vae()


def batch(step):
    generator = torch.Generator().manual_seed(2400 + step)
    return {"image": torch.rand(4, 1, 16, 16, generator=generator)}


def loss(model, inputs):
    logits, mean, log_variance = model(inputs["image"])
    image = inputs["image"].float()
    rebuilt = F.binary_cross_entropy_with_logits(logits.float(), image, reduction="sum") / image.shape[0]
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(dim=1).mean()
    return rebuilt + 0.5 * divergence
