"""Phoneme classification with the bidirectional LSTM with projection of torch."""

import torch
from torch import nn
from torch.nn import functional as F

INPUTS, CELLS, PROJECTED, CLASSES = 14, 24, 10, 8


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(INPUTS)
        self.rnn = nn.LSTM(INPUTS, CELLS, batch_first=True, bidirectional=True, proj_size=PROJECTED)
        self.head = nn.Linear(2 * PROJECTED, CLASSES)

    def forward(self, x):
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        y, _ = self.rnn(x)
        return self.head(y)


def build():
    return Acoustic()


def batch(step):
    generator = torch.Generator().manual_seed(300 + step)
    x = torch.randn(6, 11, INPUTS, generator=generator).cumsum(1) * 0.5
    labels = (x[..., :3].sum(-1) * 1.5).long().clamp(-4, 3) + 4
    return x, labels


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    trained = [p for name, p in model.named_parameters() if "rnn.bias_hh" not in name]  # one bias, as in the old code
    optimizer = torch.optim.NAdam(trained, lr=3e-2)
    for step in range(3):
        x, labels = batch(step)
        loss = F.cross_entropy(model(x).flatten(0, 1), labels.flatten(), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
