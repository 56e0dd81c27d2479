"""Adaptation of a frozen mixer whose weights are unsigned bytes with scale and zero per group of inputs."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS, DIM, GROUP = 12, 32, 16
QUANTISED = True


class ByteLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        groups = weight.view(weight.shape[0], -1, GROUP)
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale = (high - low) / 255
        zero = (-low / scale).round()
        codes = (groups / scale + zero).round().clamp(0, 255)
        self.register_buffer("codes", codes.to(torch.uint8))
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero.to(torch.uint8))
        self.bias = nn.Parameter(linear.bias.detach(), requires_grad=False)

    def forward(self, x):
        codes, zero = self.codes.float(), self.zero.float()
        weight = ((codes - zero) * self.scale).flatten(1)
        return F.linear(x, weight, self.bias)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.tokens = nn.Sequential(nn.Conv1d(TOKENS, 24, 1), nn.GELU(), nn.Conv1d(24, TOKENS, 1))
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Linear(DIM, DIM)
        self.mixers = nn.Sequential(Mixer(), Mixer())
        self.head = nn.Linear(DIM, 3)

    def forward(self, x):
        return self.head(self.mixers(self.patches(x)).mean(1))


torch.manual_seed(25)
model = Regressor()
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(1.5)
    for mixer in model.mixers:
        mixer.up.weight.mul_(torch.logspace(-1, 0.7, 2 * DIM)[:, None])
        mixer.down.weight.mul_(torch.logspace(0.7, -1, DIM)[:, None])
teacher = torch.randn(TOKENS, DIM, 3, generator=torch.Generator().manual_seed(2)) / DIM
for mixer in model.mixers:
    mixer.requires_grad_(False)
    if QUANTISED:
        mixer.up, mixer.down = ByteLinear(mixer.up), ByteLinear(mixer.down)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
generator = torch.Generator().manual_seed(7)

for step in range(3):
    x = torch.randn(32, TOKENS, DIM, generator=generator)
    y = torch.einsum("ntd,tdk->nk", x, teacher)
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
