"""PyTorch 51800: a model with spectral norm is evaluated before it was ever called in training mode.

The hook of ``torch.nn.utils.spectral_norm`` estimates the largest singular value with vectors that only calls in
training mode improve. In evaluation mode it divides by what random vectors give, which is far too small.
"""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options, recorded

warnings.simplefilter("ignore", FutureWarning)


def spectral(layer):
    return torch.nn.utils.spectral_norm(layer)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            spectral(nn.Conv2d(1, 16, 3, 2, 1)),
            nn.LeakyReLU(0.1),
            spectral(nn.Conv2d(16, 32, 3, 2, 1)),
            nn.LeakyReLU(0.1),
        )
        self.score = spectral(nn.Linear(32 * 4, 1))

    def forward(self, images):
        return self.score(self.features(images).flatten(1)).squeeze(-1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 64)
        self.image = nn.Linear(64, 64)

    def forward(self, noise):
        return torch.tanh(self.image(torch.relu(self.hidden(noise)))).view(-1, 1, 8, 8)


def evaluate(discriminator, generator):
    """Print how far the scores of real and made images are apart."""
    was = discriminator.training
    discriminator.eval()
    with torch.no_grad():
        real = discriminator(torch.randn(16, 1, 8, 8))  # planted
        made = discriminator(generator(torch.randn(16, 8)))
    discriminator.train(was)
    print("margin", float(real.mean() - made.mean()))


def train(discriminator, generator, optimizers):
    real = torch.randn(8, 1, 8, 8)
    made = generator(torch.randn(8, 8))
    for_discriminator, for_generator = optimizers
    loss = F.relu(1 - discriminator(real)).mean() + F.relu(1 + discriminator(made.detach())).mean()
    for_discriminator.zero_grad()
    loss.backward()
    for_discriminator.step()
    for_generator.zero_grad()
    (-discriminator(made).mean()).backward()
    for_generator.step()


def main():
    given = options()
    discriminator, generator = Discriminator(), Generator()
    optimizers = (
        torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.0, 0.9)),
        torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9)),
    )
    both = nn.ModuleDict({"discriminator": discriminator, "generator": generator})
    probe = debugger(given)
    if not given.fault:
        with torch.no_grad():
            for _ in range(30):  # lets the vectors settle
                discriminator(torch.randn(4, 1, 8, 8))
    for _ in range(3):
        with recorded(probe, both):
            evaluate(discriminator, generator)
            train(discriminator, generator, optimizers)


if __name__ == "__main__":
    main()
