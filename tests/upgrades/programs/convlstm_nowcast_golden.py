"""Radar nowcasting with a peephole ConvLSTM: a convolution per gate, as the paper writes the equations."""

import torch
from torch import nn


class PeepholeConvLSTMCell(nn.Module):
    def __init__(self, in_channels, hidden, size):
        super().__init__()
        self.hidden = hidden
        for gate in ("input", "forget", "candidate", "output"):
            setattr(self, f"x_{gate}", nn.Conv2d(in_channels, hidden, 3, 1, 1))
            setattr(self, f"h_{gate}", nn.Conv2d(hidden, hidden, 3, 1, 1, bias=False))
        self.w_ci = nn.Parameter(0.3 * torch.randn(hidden, size, size))
        self.w_cf = nn.Parameter(0.3 * torch.randn(hidden, size, size))
        self.w_co = nn.Parameter(0.3 * torch.randn(hidden, size, size))

    def forward(self, x, h, c):
        i = torch.sigmoid(self.x_input(x) + self.h_input(h) + self.w_ci * c)
        f = torch.sigmoid(self.x_forget(x) + self.h_forget(h) + self.w_cf * c)
        c_new = f * c + i * torch.tanh(self.x_candidate(x) + self.h_candidate(h))
        o = torch.sigmoid(self.x_output(x) + self.h_output(h) + self.w_co * c_new)
        return o * torch.tanh(c_new), c_new


class Nowcast(nn.Module):
    def __init__(self, hidden=12, size=8):
        super().__init__()
        self.size = size
        self.down = nn.Conv2d(1, 6, 4, stride=2, padding=1)
        self.act = nn.LeakyReLU(0.2)
        self.encoder = PeepholeConvLSTMCell(6, hidden, size)
        self.decoder = PeepholeConvLSTMCell(6, hidden, size)
        self.up = nn.ConvTranspose2d(hidden, 1, 4, stride=2, padding=1)

    def forward(self, frames, horizon=3):
        h = torch.zeros(frames.size(0), self.encoder.hidden, self.size, self.size)
        c = torch.zeros_like(h)
        for frame in frames.unbind(1):
            h, c = self.encoder(self.act(self.down(frame)), h, c)
        frame = frames[:, -1]
        outputs = []
        for _ in range(horizon):
            h, c = self.decoder(self.act(self.down(frame)), h, c)
            frame = frame + self.up(h)
            outputs.append(frame)
        return torch.stack(outputs, dim=1)


def build():
    torch.manual_seed(0)
    return Nowcast()


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


def balanced_loss(prediction, truth):
    weight = torch.where(truth > 0.5, 5.0, 1.0)
    difference = prediction - truth
    return torch.mean(weight * difference.square()) + difference.abs().mean()


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step in range(3):
        clip = radar(step)
        loss = balanced_loss(model(clip[:, :4]), clip[:, 4:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
