"""Convolutions, group norm and transposed convolution autoencoder."""

import torch
from torch import nn


def build():
    enc = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ELU()
    )
    dec = nn.Sequential(
        nn.ConvTranspose2d(16, 8, 4, 2, 1),
        nn.PReLU(8),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
        nn.Conv2d(8, 1, 3, padding=1),
    )
    return nn.Sequential(enc, dec)


if __name__ == "__main__":
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.Adamax(net.parameters(), lr=3e-3)
    ema = {k: v.clone() for k, v in net.state_dict().items() if v.is_floating_point()}
    gen = torch.Generator().manual_seed(23)
    for step in range(3):
        x = torch.rand(4, 1, 16, 16, generator=gen)
        loss = nn.functional.smooth_l1_loss(net(x), x, beta=0.2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for k, v in net.state_dict().items():
                if k in ema:
                    ema[k].lerp_(v, 0.1)
        print(step, f"{loss.item():.9f}", f"{sum(v.abs().sum().item() for v in ema.values()):.9f}")
