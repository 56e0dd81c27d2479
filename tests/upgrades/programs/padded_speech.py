"""Utterance embeddings of a strided convolution and bidirectional LSTM encoder, in one padded batch."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

MEL, WIDTH, HIDDEN = 12, 24, 16


def valid(lengths, size):
    return torch.arange(size)[None, :] < lengths[:, None]


class Subsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(MEL, WIDTH, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x, lengths):
        lengths = (lengths + 1) // 2
        x = F.gelu(self.conv1(x))
        x = x * valid(lengths, x.shape[-1])[:, None]
        return x + F.gelu(self.conv2(x)), lengths


class AttentivePooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(2 * HIDDEN, 1)
        self.out = nn.Linear(4 * HIDDEN, 20)

    def forward(self, x, lengths):
        score = self.score(x)
        score = score.masked_fill(~valid(lengths, x.shape[1])[..., None], -1e9)
        weight = score.softmax(dim=1)
        mean = (weight * x).sum(1)
        variance = (weight * (x - mean[:, None]) ** 2).sum(1)
        return self.out(torch.cat([mean, (variance + 1e-5).sqrt()], dim=-1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.subsampling = Subsampling()
        self.rnn = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.pooling = AttentivePooling()

    def forward(self, mel, lengths):
        x, lengths = self.subsampling(mel.transpose(1, 2), lengths)
        packed = pack_padded_sequence(x.transpose(1, 2), lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return F.normalize(self.pooling(x, lengths), dim=-1)


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
    batch = utterances(step)
    lengths = torch.tensor([len(mel) for mel in batch])
    with torch.no_grad():
        embeddings = model(pad_sequence(batch, batch_first=True), lengths)
    loss = ((embeddings - anchor) ** 2).sum() + (embeddings @ embeddings.t()).abs().sum()
    print(f"step {step} loss {loss.item():.9f}")
