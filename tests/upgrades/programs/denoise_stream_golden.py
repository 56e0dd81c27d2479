"""Speech enhancement with a learned filter bank, a causal mask network and overlap-add, on whole recordings."""

import torch
from torch import nn
from torch.nn import functional as F

FILTERS, KERNEL, STRIDE, HIDDEN = 20, 16, 8, 24


class CausalConv(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.context = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.gate = nn.PReLU(channels)

    def forward(self, x):
        return x + self.gate(self.conv(F.pad(x, (self.context, 0))))


class MaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(CausalConv(FILTERS, 3, d) for d in (1, 2, 4))
        self.rnn = nn.GRU(FILTERS, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, FILTERS)

    def forward(self, x):
        for conv in self.convs:
            x = conv(x)
        x, _ = self.rnn(x.transpose(1, 2))
        return self.out(x).sigmoid().transpose(1, 2)


class Enhancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.analysis = nn.Conv1d(1, FILTERS, KERNEL, stride=STRIDE, bias=False)
        self.mask = MaskNet()
        self.synthesis = nn.ConvTranspose1d(FILTERS, 1, KERNEL, stride=STRIDE, bias=False)

    def forward(self, wave):
        wave = F.pad(wave, (KERNEL - STRIDE, 0))
        frames = self.analysis(wave[:, None]).relu()
        return self.synthesis(frames * self.mask(frames))[:, 0]


torch.manual_seed(21)
model = Enhancer()
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(2.0)
model.eval()
generator = torch.Generator().manual_seed(2)
time = torch.arange(32 * STRIDE) / 40.0

for step in range(3):
    noise = torch.randn(2, len(time), generator=generator)
    clean = torch.stack([torch.sin(time * (step + 1)), torch.cos(time * 0.7)])
    with torch.no_grad():
        out = model(clean + 0.3 * noise)[:, : len(time)]
    loss = out.square().sum() + (out - clean).abs().sum()
    print(f"step {step} loss {loss.item():.9f}")
