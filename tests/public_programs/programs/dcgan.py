"""Two networks against each other, modelled on dcgan/main.py of pytorch/examples.

An iteration is a batch: the discriminator sees real and generated images, then the generator is trained.
"""

import torch
from torch import nn

torch.manual_seed(0)
NOISE, BATCH = 6, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NOISE, 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(True),
            nn.ConvTranspose2d(4, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 4, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, image):
        return self.main(image).view(-1)


def init(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.1)


net_g, net_d = Generator().apply(init), Discriminator().apply(init)
criterion = nn.BCELoss()
optimizer_d = torch.optim.Adam(net_d.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(net_g.parameters(), lr=0.002, betas=(0.5, 0.999))
images = torch.rand(3, BATCH, 1, 8, 8) * 2 - 1

for real in images:
    net_d.zero_grad()
    label = torch.ones(BATCH)
    loss_real = criterion(net_d(real), label)
    loss_real.backward()
    fake = net_g(torch.randn(BATCH, NOISE, 1, 1))
    label.fill_(0.0)
    loss_fake = criterion(net_d(fake.detach()), label)
    loss_fake.backward()
    optimizer_d.step()

    net_g.zero_grad()
    label.fill_(1.0)
    loss_g = criterion(net_d(fake), label)
    loss_g.backward()
    optimizer_g.step()
    print((loss_real + loss_fake).item().hex(), loss_g.item().hex())
