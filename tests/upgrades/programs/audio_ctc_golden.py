"""Keyword spotter: log spectrogram -> two convolutions -> bidirectional GRU -> CTC."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N_FFT, HOP, VOCAB = 32, 16, 7


class Frontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)

    def forward(self, wav):
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, center=False, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        return torch.log(power + 1e-3)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 3, stride=stride, padding=1)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.gelu(self.bn(self.conv(x)))


class Spotter(nn.Module):
    def __init__(self, channels=24, hidden=16):
        super().__init__()
        self.frontend = Frontend()
        self.conv1 = ConvBlock(N_FFT // 2 + 1, channels)
        self.conv2 = ConvBlock(channels, channels, stride=2)
        self.gru = nn.GRU(channels, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, VOCAB)

    def forward(self, wav):
        x = self.frontend(wav)
        x = self.conv2(self.conv1(x))
        x, _ = self.gru(x.transpose(1, 2))
        return self.head(x).log_softmax(-1)


def build():
    return Spotter()


def make_batch(step):
    g = torch.Generator().manual_seed(100 + step)
    wav = torch.randn(4, 512, generator=g)
    labels = torch.randint(1, VOCAB, (4, 4), generator=g)
    lengths = torch.tensor([4, 3, 2, 4])
    return wav, labels, lengths


def main():
    torch.manual_seed(0)
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(3):
        wav, labels, lengths = make_batch(step)
        logp = model(wav)
        frames = torch.full((wav.shape[0],), logp.shape[1])
        loss = F.ctc_loss(logp.transpose(0, 1), labels, frames, lengths, reduction="none").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
