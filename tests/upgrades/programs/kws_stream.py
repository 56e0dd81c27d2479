"""Keyword spotting on a stream: chunks of 7 frames, every layer keeps what it needs of the past."""

import numpy as np
import torch
from torch import nn

CHUNK = 7


class StreamConv(nn.Module):
    """Convolution over time (batch, time, channel) with a left context buffer."""

    def __init__(self, cin, cout, k, dilation=1):
        super().__init__()
        self.k, self.dilation, self.cin = k, dilation, cin
        self.weight = nn.Parameter(torch.empty(k, cin, cout))
        self.bias = nn.Parameter(torch.empty(cout))
        self.past = None

    def reset(self):
        self.past = None

    def forward(self, x):
        keep = (self.k - 1) * self.dilation
        if self.past is None:
            self.past = x.new_zeros(x.shape[0], keep, self.cin)
        window = torch.cat([self.past, x], dim=1)
        self.past = window[:, -keep:]
        out = self.bias
        for i in range(self.k):
            begin = i * self.dilation
            out = out + window[:, begin : begin + x.shape[1]] @ self.weight[i]
        return out


class Gated(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = StreamConv(ch, ch, 3, dilation)
        self.gate = nn.Linear(ch, ch)

    def forward(self, x):
        h = self.conv(x)
        return torch.addcmul(x, h.tanh(), self.gate(h).sigmoid())


class Cell(nn.Module):
    """One GRU layer, a step at a time, the state stays in the module."""

    def __init__(self, cin, hidden):
        super().__init__()
        self.cell = nn.GRUCell(cin, hidden)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        out = []
        for frame in x.unbind(1):
            self.state = self.cell(frame, self.state)
            out.append(self.state)
        return torch.stack(out, 1)


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def forward(self, x):
        sums = self.total + x.cumsum(1)
        n = self.count + torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
        self.total = sums[:, -1:]
        self.count += x.shape[1]
        return sums / n[None, :, None]


class StreamSpotter(nn.Module):
    def __init__(self, mel=8, ch=12, hidden=10, words=6):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(mel))
        self.stem = StreamConv(mel, ch, 5)
        self.res = nn.ModuleList(Gated(ch, d) for d in (1, 2, 4))
        self.rnn = nn.ModuleList([Cell(ch, hidden), Cell(hidden, hidden)])
        self.head = nn.Linear(hidden, words)
        self.pool = RunningMean()

    def reset(self):
        for m in self.modules():
            if m is not self and hasattr(m, "reset"):
                m.reset()

    def forward(self, mel):
        x = self.stem(mel - self.shift).relu()
        for block in self.res:
            x = block(x)
        for layer in self.rnn:
            x = layer(x)
        return self.pool(self.head(x)).softmax(-1)


def convert(sd):
    out = {"shift": sd["norm_mean"], "head.weight": sd["head.weight"], "head.bias": sd["head.bias"]}

    def conv(dst, src):
        out[dst + ".weight"] = sd[src + ".weight"].permute(2, 1, 0)
        out[dst + ".bias"] = sd[src + ".bias"]

    conv("stem", "stem.conv")
    for i in range(3):
        conv(f"res.{i}.conv", f"blocks.{i}.conv.conv")
        out[f"res.{i}.gate.weight"] = sd[f"blocks.{i}.gate.weight"].squeeze(-1)
        out[f"res.{i}.gate.bias"] = sd[f"blocks.{i}.gate.bias"]
    for i in range(2):
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            out[f"rnn.{i}.cell.{part}"] = sd[f"gru.{part}_l{i}"]
    return out


def listen(model, mel):
    model.reset()
    return torch.cat([model(piece) for piece in mel.split(CHUNK, dim=1)], dim=1)


def main():
    torch.set_grad_enabled(False)
    model = StreamSpotter()
    model.load_state_dict(convert(torch.load("weights.pt")))
    rng = np.random.default_rng(11)
    for i, length in enumerate([32, 27, 45]):
        mel = torch.from_numpy(rng.standard_normal((1, length, 8)).astype(np.float32))
        scores = listen(model, mel)[0]
        print(f"utterance {i}: word {scores[-1].argmax().item()} score {scores[-1].max().item():.9f}")
        print(
            f"   mean of word 0 {scores[:, 0].mean().item():.9f} first {scores[0, 1].item():.9f}"
            f" middle {scores[20, 2].item():.9f}"
        )


if __name__ == "__main__":
    main()
