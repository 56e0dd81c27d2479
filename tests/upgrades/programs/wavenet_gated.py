import math

import torch
import torch.nn.functional as F
from torch import nn

# WaveNet-like dilated gated convolutions over mu-law quantised audio, conditioned on a speaker.


def mu_law_encode(wav, bins):
    mu = bins - 1
    y = torch.sign(wav) * torch.log1p(mu * wav.abs()) / math.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).long().clamp(0, mu)


def synth(batch, length, gen):
    t = torch.arange(length) / 64.0
    freq = 1.0 + 4.0 * torch.rand(batch, 1, generator=gen)
    phase = 6.28 * torch.rand(batch, 1, generator=gen)
    speaker = torch.randint(0, 3, (batch,), generator=gen)
    wav = 0.7 * torch.sin(6.28 * freq * t + phase) * (1.0 + speaker[:, None]) / 3.0
    return wav + 0.02 * torch.randn(batch, length, generator=gen), speaker


class CausalConv(nn.Conv1d):
    def __init__(self, c_in, c_out, kernel, dilation):
        super().__init__(c_in, c_out, kernel, dilation=dilation)
        self.left = (kernel - 1) * dilation

    def forward(self, x):
        x = F.pad(x, (self.left, 0))
        return super().forward(x)


class GatedBlock(nn.Module):
    def __init__(self, channels, skip, cond, dilation):
        super().__init__()
        self.conv = CausalConv(channels, 2 * channels, 2, dilation)
        self.cond = nn.Linear(cond, 2 * channels)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skip, 1)

    def forward(self, x, c):
        h = self.conv(x) + self.cond(c).unsqueeze(-1)
        a, b = h.chunk(2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return (x + self.res(z)) * math.sqrt(0.5), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, bins=32, channels=16, skip=24, cond=6, dilations=(1, 2, 4, 8)):
        super().__init__()
        self.embed = nn.Embedding(bins, channels)
        self.speaker = nn.Embedding(3, cond)
        self.blocks = nn.ModuleList(GatedBlock(channels, skip, cond, d) for d in dilations)
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, bins, 1))

    def forward(self, tokens, speaker):
        x = self.embed(tokens).transpose(1, 2)
        c = self.speaker(speaker)
        total = 0
        for block in self.blocks:
            x, s = block(x, c)
            total = total + s
        return self.out(total / math.sqrt(len(self.blocks)))


class Trainer:
    receptive = 16

    def __init__(self):
        torch.manual_seed(11)
        self.gen = torch.Generator().manual_seed(3)
        self.model = WaveNet()
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=2e-3)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=0.5)

    def loss(self, tokens, speaker):
        logits = self.model(tokens[:, :-1], speaker)
        target = tokens[:, 1:]
        logits = logits[:, :, self.receptive - 1 :]
        target = target[:, self.receptive - 1 :]
        return F.cross_entropy(logits, target)

    def step(self):
        wav, speaker = synth(4, 80, self.gen)
        wav = wav / wav.abs().amax(dim=1, keepdim=True)
        tokens = mu_law_encode(wav, 32)
        loss = self.loss(tokens, speaker)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.item()


if __name__ == "__main__":
    trainer = Trainer()
    for i in range(3):
        print(f"step {i + 1} loss {trainer.step():.9f}")
