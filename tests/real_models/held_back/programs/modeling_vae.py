"""A convolutional variational auto-encoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, channels, latent):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 4, stride=2, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1)
        self.norm2 = nn.InstanceNorm2d(2 * channels, affine=True)
        self.mean = nn.Linear(32 * channels, latent)
        self.log_variance = nn.Linear(32 * channels, latent)

    def forward(self, x):
        x = F.leaky_relu(self.norm1(self.conv1(x)), 0.2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        x = x.flatten(1)
        return self.mean(x), self.log_variance(x)


class Decoder(nn.Module):
    def __init__(self, channels, latent):
        super().__init__()
        self.linear = nn.Linear(latent, 32 * channels)
        self.norm = nn.GroupNorm(4, 2 * channels)
        self.conv1 = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.act = nn.PReLU(channels)
        self.conv2 = nn.Conv2d(channels, 1, 3, padding=1, padding_mode="reflect")

    def forward(self, z):
        x = self.linear(z)
        x = x.view(x.shape[0], -1, 4, 4)
        x = F.softplus(self.norm(x))
        x = self.act(self.conv1(x))
        x = self.up(x)
        return self.conv2(x)


class Vae(nn.Module):
    def __init__(self, channels=8, latent=6):
        super().__init__()
        self.encoder = Encoder(channels, latent)
        self.decoder = Decoder(channels, latent)

    def forward(self, x):
        mean, log_variance = self.encoder(x)
        deviation = torch.exp(0.5 * log_variance)
        noise = torch.randn_like(deviation)
        z = mean + noise * deviation
        return self.decoder(z), mean, log_variance
