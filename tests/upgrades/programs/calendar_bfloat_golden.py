"""Load forecast from the position in a long year, in single precision."""

import torch
from torch import nn
from torch.nn import functional as F

HOURS, WINDOW, WIDTH, WAVES = 8760, 24, 48, 6


class Calendar(nn.Module):
    """Sines and cosines of the hour with several periods."""

    def __init__(self):
        super().__init__()
        self.periods = [6.0, 12.0, 24.0, 168.0, 730.0, 8760.0]
        self.mix = nn.Linear(2 * WAVES, WIDTH)

    def forward(self, hours):
        angle = 2 * torch.pi * hours[..., None] / torch.tensor(self.periods)
        return self.mix(torch.cat([angle.sin(), angle.cos()], dim=-1))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.calendar = Calendar()
        self.values = nn.Linear(1, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, hours, weather):
        x = self.calendar(hours) + self.values(weather[..., None])
        return self.out(F.gelu(self.hidden(self.norm(x)))).squeeze(-1)


def batch(generator):
    start = torch.randint(0, HOURS - WINDOW, (32, 1), generator=generator)
    hours = (start + torch.arange(WINDOW)).float()
    weather = torch.randn(32, WINDOW, generator=generator)
    load = torch.sin(2 * torch.pi * hours / 12) + 0.5 * torch.cos(2 * torch.pi * hours / 168)
    return hours, weather, load + 0.2 * weather


torch.manual_seed(44)
model = Forecaster()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
generator = torch.Generator().manual_seed(15)

for step in range(3):
    hours, weather, load = batch(generator)
    loss = F.mse_loss(model(hours, weather), load)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
