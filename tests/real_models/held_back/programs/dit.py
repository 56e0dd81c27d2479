"""A diffusion transformer: predicts the velocity between an image and noise (flow matching)."""

import torch
import torch.nn.functional as F
from modeling_dit import DiT

KEPT = ()


def build(attention):
    return DiT(fused=attention == "sdpa")


def batch(step):
    generator = torch.Generator().manual_seed(2200 + step)
    clean = torch.randn(3, 3, 8, 8, generator=generator)
    noise = torch.randn(3, 3, 8, 8, generator=generator)
    time = torch.rand(3, generator=generator)
    mix = time[:, None, None, None]
    label = torch.randint(5, (3,), generator=generator)
    return {
        "image": (1 - mix) * clean + mix * noise,
        "time": torch.round(time * 100),
        "label": torch.where(torch.arange(3) == 2, 5, label),
        "velocity": noise - clean,
    }


def loss(model, inputs):
    predicted = model(inputs["image"], inputs["time"], inputs["label"])
    return F.mse_loss(predicted.float(), inputs["velocity"].float())
