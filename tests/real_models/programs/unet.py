"""A diffusion model: predicts the noise in an image."""

import torch
import torch.nn.functional as F
from modeling_unet import UNet

KEPT = ()


def build(attention):
    return UNet(channels=8, fused=attention == "sdpa")


def batch(step):
    generator = torch.Generator().manual_seed(900 + step)
    clean = torch.randn(2, 3, 8, 8, generator=generator)
    noise = torch.randn(2, 3, 8, 8, generator=generator)
    time = torch.tensor([10 + 200 * step, 700 + step])
    kept = torch.cos(time / 1000 * 1.5)[:, None, None, None]
    return {"image": kept * clean + (1 - kept**2).sqrt() * noise, "time": time, "noise": noise}


def loss(model, inputs):
    predicted = model(inputs["image"], inputs["time"])
    return F.mse_loss(predicted.float(), inputs["noise"].float())
