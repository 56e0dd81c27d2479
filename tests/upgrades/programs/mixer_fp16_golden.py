"""MLP-Mixer for token sequences in float32."""

import torch
import torch.nn as nn

TOKENS, CH, DEPTH, OUT = 12, 16, 2, 3


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        return self.net(x)


class MixerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_tokens = nn.LayerNorm(CH)
        self.tokens = Mlp(TOKENS, 20)
        self.ln_channels = nn.LayerNorm(CH)
        self.channels = Mlp(CH, 24)

    def forward(self, x):
        y = self.ln_tokens(x).transpose(1, 2)
        x = x + self.tokens(y).transpose(1, 2)
        return x + self.channels(self.ln_channels(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, CH)
        self.blocks = nn.Sequential(*(MixerBlock() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(CH)
        self.head = nn.Linear(CH, OUT)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x))).mean(1))


def build():
    return Mixer()


def sensor_batch(step):
    g = torch.Generator().manual_seed(700 + step)
    x = torch.randn(24, TOKENS, 5, generator=g)
    y = torch.stack([x.mean((1, 2)) * 4, x[:, :, 0].amax(1), x[:, 3, 2]], dim=1)
    return x, y


def huber(pred, y):
    return nn.functional.smooth_l1_loss(pred, y, beta=0.5)


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True)
    for step in range(3):
        x, y = sensor_batch(step)
        loss = huber(model(x), y)
        opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f}")
    with torch.no_grad():
        x, y = sensor_batch(99)
        print(f"test loss {huber(model(x), y).item():.9f}")


if __name__ == "__main__":
    main()
