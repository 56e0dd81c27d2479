"""Keyword spotting, the whole utterance at once: causal convs + GRU + running average pooling."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.left = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = CausalConv(ch, ch, 3, dilation)
        self.gate = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = self.conv(x)
        return x + torch.tanh(h) * torch.sigmoid(self.gate(h))


class Spotter(nn.Module):
    def __init__(self, mel=8, ch=12, hidden=10, words=6):
        super().__init__()
        self.norm_mean = nn.Parameter(torch.zeros(mel))
        self.stem = CausalConv(mel, ch, 5, 1)
        self.blocks = nn.Sequential(*[ResBlock(ch, 2**i) for i in range(3)])
        self.gru = nn.GRU(ch, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, words)

    def forward(self, mel):
        x = (mel - self.norm_mean).transpose(1, 2)
        x = self.blocks(F.relu(self.stem(x)))
        h, _ = self.gru(x.transpose(1, 2))
        logits = self.head(h)
        count = torch.arange(1, logits.shape[1] + 1).view(1, -1, 1)
        return logits.cumsum(1) / count


def build():
    return Spotter()


def utterances():
    rng = np.random.default_rng(11)
    for length in (32, 27, 45):
        yield torch.from_numpy(rng.standard_normal((1, length, 8)).astype(np.float32))


@torch.no_grad()
def main():
    model = build().eval()
    model.load_state_dict(torch.load("weights.pt"))
    for i, mel in enumerate(utterances()):
        scores = model(mel).softmax(-1)
        print(f"utterance {i}: word {int(scores[0, -1].argmax())} score {scores[0, -1].max().item():.9f}")
        print(
            f"   mean of word 0 {scores[0, :, 0].mean().item():.9f} first {scores[0, 0, 1].item():.9f}"
            f" middle {scores[0, 20, 2].item():.9f}"
        )


if __name__ == "__main__":
    main()
