"""Radar nowcasting with a peephole ConvLSTM: one fused convolution for the four gates."""

import torch
import torch.nn.functional as F
from torch import nn

GATES = ("input", "forget", "candidate", "output")


class ConvLSTMCell(nn.Module):
    """The gates of the input and of the hidden state come from one convolution of their concatenation."""

    def __init__(self, in_channels, hidden, size):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(in_channels + hidden, 4 * hidden, 3, padding=1)
        self.peephole = nn.Parameter(torch.zeros(3, hidden, size, size))

    def initial(self, x):
        shape = (x.shape[0], self.hidden, *x.shape[-2:])
        return x.new_zeros(shape), x.new_zeros(shape)

    def forward(self, x, state):
        h, c = state
        peep_i, peep_f, peep_o = self.peephole
        i, f, g, o = self.conv(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        i = torch.sigmoid(i + peep_i * c)
        f = torch.sigmoid(f + peep_f * c)
        c = f * c + i * torch.tanh(g)
        o = torch.sigmoid(o + peep_o * c)
        return o * torch.tanh(c), c


class Forecaster(nn.Module):
    def __init__(self, hidden=12, size=8, horizon=3):
        super().__init__()
        self.horizon = horizon
        self.down = nn.Conv2d(1, 6, 4, stride=2, padding=1)
        self.encoder = ConvLSTMCell(6, hidden, size)
        self.decoder = ConvLSTMCell(6, hidden, size)
        self.up = nn.ConvTranspose2d(hidden, 1, 4, stride=2, padding=1)

    def forward(self, frames):
        steps = F.leaky_relu(self.down(frames.flatten(0, 1)), 0.2).unflatten(0, frames.shape[:2])
        state = self.encoder.initial(steps[:, 0])
        for t in range(steps.shape[1]):
            state = self.encoder(steps[:, t], state)
        frame = frames[:, -1]
        outputs = []
        for _ in range(self.horizon):
            seen = F.leaky_relu(self.down(frame), 0.2)
            state = self.decoder(seen, state)
            frame = frame + self.up(state[0])
            outputs.append(frame)
        return torch.stack(outputs, dim=1)


def convert(old):
    """Parameters of the cells with split gates to those of the fused cells."""
    new = {k: v for k, v in old.items() if k.startswith(("down", "up"))}
    for cell in ("encoder", "decoder"):
        from_x = torch.cat([old[f"{cell}.x_{gate}.weight"] for gate in GATES])
        from_h = torch.cat([old[f"{cell}.h_{gate}.weight"] for gate in GATES])
        new[f"{cell}.conv.weight"] = torch.cat([from_x, from_h], dim=1)
        new[f"{cell}.conv.bias"] = torch.cat([old[f"{cell}.x_{gate}.bias"] for gate in GATES])
        new[f"{cell}.peephole"] = torch.stack([old[f"{cell}.w_{k}"] for k in ("ci", "cf", "co")])
    return new


def radar(seed, batch=4, length=7, size=16):
    g = torch.Generator().manual_seed(seed)
    grid = torch.arange(size, dtype=torch.float32)
    start = 3 + 8 * torch.rand(batch, 2, generator=g)
    speed = torch.rand(batch, 2, generator=g) - 0.5
    times = torch.arange(length).view(1, -1, 1)
    centre = start[:, None] + times * speed[:, None]
    dy = (grid.view(1, 1, -1, 1) - centre[..., 0, None, None]) ** 2
    dx = (grid.view(1, 1, 1, -1) - centre[..., 1, None, None]) ** 2
    return torch.exp(-(dx + dy) / 8).unsqueeze(2)


model = Forecaster()
model.load_state_dict(convert(torch.load("weights.pt")))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for step in range(3):
    clip = radar(step)
    prediction = model(clip[:, :4])
    truth = clip[:, 4:]
    weight = 1 + 4 * (truth > 0.5).float()
    loss = (weight * (prediction - truth) ** 2).mean() + (prediction - truth).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
