"""Utterance embeddings of a strided convolution and bidirectional LSTM encoder, one utterance at a time."""

import torch
from torch import nn
from torch.nn import functional as F

MEL, WIDTH, HIDDEN = 12, 24, 16


class Subsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(MEL, WIDTH, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        x = F.gelu(self.conv1(x))
        return x + F.gelu(self.conv2(x))


class AttentivePooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(2 * HIDDEN, 1)
        self.out = nn.Linear(4 * HIDDEN, 20)

    def forward(self, x):
        weight = self.score(x).softmax(dim=1)
        mean = (weight * x).sum(1)
        variance = (weight * (x - mean[:, None]) ** 2).sum(1)
        return self.out(torch.cat([mean, (variance + 1e-5).sqrt()], dim=-1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.subsampling = Subsampling()
        self.rnn = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.pooling = AttentivePooling()

    def forward(self, mel):
        x = self.subsampling(mel.transpose(1, 2)).transpose(1, 2)
        x, _ = self.rnn(x)
        return F.normalize(self.pooling(x), dim=-1)


def utterances(step):
    generator = torch.Generator().manual_seed(100 + step)
    lengths = [[17, 30, 9, 21], [12, 7, 33, 15], [25, 11, 19, 40]][step]
    return [torch.randn(n, MEL, generator=generator) + 0.5 for n in lengths]


torch.manual_seed(3)
model = Encoder()
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(2.0)
model.eval()
anchor = torch.randn(20, generator=torch.Generator().manual_seed(9))

for step in range(3):
    with torch.no_grad():
        embeddings = torch.cat([model(mel[None]) for mel in utterances(step)])
    loss = ((embeddings - anchor) ** 2).sum() + (embeddings @ embeddings.t()).abs().sum()
    print(f"step {step} loss {loss.item():.9f}")
