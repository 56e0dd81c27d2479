"""A critic trained more often than its generator, modelled on implementations/wgan of eriklindernoren/PyTorch-GAN.

An iteration is a batch: the critic is trained and clipped; the generator is trained in every third one.
"""

import torch
from torch import nn

torch.manual_seed(0)
N_CRITIC, CLIP, NOISE = 3, 0.05, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(NOISE, 8), nn.BatchNorm1d(8, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 9), nn.Tanh()
        )

    def forward(self, z):
        return self.model(z).view(len(z), 1, 3, 3)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(9, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))

    def forward(self, image):
        return self.model(image.flatten(1))


generator, discriminator = Generator(), Discriminator()
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=5e-3)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=5e-3)
for i in range(6):
    real = torch.rand(4, 1, 3, 3) * 2 - 1
    optimizer_D.zero_grad()
    z = torch.randn(4, NOISE)
    fake = generator(z).detach()
    loss_D = -torch.mean(discriminator(real)) + torch.mean(discriminator(fake))
    loss_D.backward()
    optimizer_D.step()
    for parameter in discriminator.parameters():
        parameter.data.clamp_(-CLIP, CLIP)
    if i % N_CRITIC == 0:
        optimizer_G.zero_grad()
        loss_G = -torch.mean(discriminator(generator(z)))
        loss_G.backward()
        optimizer_G.step()
    print(loss_D.item().hex(), loss_G.item().hex())
