"""A small conditional WaveNet with weight normalisation predicts mu-law samples."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

LEVELS, WIDTH, SKIP, CONDITION = 32, 16, 20, 6


class Residual(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.past = dilation
        self.conv = weight_norm(nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=dilation))
        self.local = weight_norm(nn.Conv1d(CONDITION, 2 * WIDTH, 1, bias=False))
        self.out = weight_norm(nn.Conv1d(WIDTH, WIDTH + SKIP, 1))

    def forward(self, x, condition):
        y = self.conv(F.pad(x, (self.past, 0))) + self.local(condition)
        a, b = y.chunk(2, dim=1)
        residual, skip = self.out(a.tanh() * b.sigmoid()).split([WIDTH, SKIP], dim=1)
        return (x + residual) * 0.5**0.5, skip


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(LEVELS, WIDTH)
        self.upsample = weight_norm(nn.ConvTranspose1d(CONDITION, CONDITION, 8, stride=8), dim=1)
        self.layers = nn.ModuleList(Residual(2**i) for i in range(4))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(SKIP, SKIP, 1), nn.ReLU(), nn.Conv1d(SKIP, LEVELS, 1))

    def forward(self, samples, mel):
        x = F.pad(self.embed(samples[:, :-1]).transpose(1, 2), (1, 0))
        condition = self.upsample(mel)
        total = 0
        for layer in self.layers:
            x, skip = layer(x, condition)
            total = total + skip
        return self.head(total)


def encode(wave):
    mu = LEVELS - 1
    squeezed = wave.sign() * torch.log1p(mu * wave.abs()) / torch.log1p(torch.tensor(float(mu)))
    return ((squeezed + 1) / 2 * mu + 0.5).long()


torch.manual_seed(1)
model = WaveNet()
with torch.no_grad():
    for name, weight in sorted(model.named_parameters()):
        generator = torch.Generator().manual_seed(weight.numel())
        weight.mul_(2.5 + 0.3 * torch.randn(weight.shape, generator=generator))
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)

for step in range(3):
    generator = torch.Generator().manual_seed(500 + step)
    pitch = torch.rand(4, 1, generator=generator) + 0.2
    wave = torch.sin(pitch * torch.arange(48)) * torch.linspace(0.1, 1, 48)
    mel = torch.randn(4, CONDITION, 6, generator=generator) + pitch[..., None]
    samples = encode(wave)
    loss = F.cross_entropy(model(samples, mel), samples)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
