"""Latent diffusion, modelled on examples/text_to_image/train_text_to_image.py of huggingface/diffusers.

A frozen text encoder and a frozen autoencoder are called before the network that learns. An iteration is a batch.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
STEPS, SIZE = 10, 6


class AutoencoderKL(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv2d(1, 2, 2, stride=2)

    def encode(self, images):
        return self.encoder(images)


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.mixer = nn.Embedding(9, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, ids):
        return torch.tanh(self.mixer(self.embeddings(ids)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_embedding = nn.Embedding(STEPS, 4)
        self.conv_in, self.conv_out = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.to_kv = nn.Linear(SIZE, 4)

    def forward(self, sample, timesteps, states):
        x = self.norm(self.conv_in(sample)) + self.time_embedding(timesteps)[:, :, None, None]
        q, kv = x.flatten(2).transpose(1, 2), self.to_kv(states)
        x = x + F.scaled_dot_product_attention(q, kv, kv).transpose(1, 2).reshape(x.shape)
        return self.conv_out(F.silu(x))


class DDPMScheduler:
    def __init__(self):
        self.alphas_cumprod = torch.cumprod(1.0 - torch.linspace(1e-2, 0.2, STEPS), dim=0)

    def add_noise(self, samples, noise, timesteps):
        kept = self.alphas_cumprod[timesteps].sqrt().view(-1, 1, 1, 1)
        added = (1 - self.alphas_cumprod[timesteps]).sqrt().view(-1, 1, 1, 1)
        return kept * samples + added * noise


vae, text_encoder, unet, noise_scheduler = AutoencoderKL(), TextEncoder(), UNet(), DDPMScheduler()
vae.requires_grad_(False)
text_encoder.requires_grad_(False)
ema_unet = copy.deepcopy(unet)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3, weight_decay=1e-2)
unet.train()
for _batch in range(4):
    images, ids = torch.rand(3, 1, 8, 8), torch.randint(0, 9, (3, 5))
    latents = vae.encode(images) * 0.18215
    noise = torch.randn_like(latents)
    timesteps = torch.randint(0, STEPS, (len(latents),))
    noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
    prediction = unet(noisy_latents, timesteps, text_encoder(ids))
    loss = F.mse_loss(prediction.float(), noise.float(), reduction="mean")
    loss.backward()
    nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for average, parameter in zip(ema_unet.parameters(), unet.parameters()):
            average.lerp_(parameter, 0.1)
    print(loss.item().hex())
