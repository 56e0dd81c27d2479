import math

import torch
from torch import nn


class DFT(nn.Module):
    """Power spectrum by a strided convolution with the windowed Fourier basis."""

    def __init__(self, n_fft=32, hop=16):
        super().__init__()
        self.hop = hop
        t = torch.arange(n_fft, dtype=torch.float64)
        k = torch.arange(n_fft // 2 + 1, dtype=torch.float64)[:, None]
        hann = 0.5 - 0.5 * torch.cos(2 * math.pi * t / n_fft)
        basis = torch.cat([
            torch.cos(2 * math.pi * k * t / n_fft) * hann,
            -torch.sin(2 * math.pi * k * t / n_fft) * hann,
        ])
        self.register_buffer("basis", basis[:, None].float())

    def forward(self, wav):
        out = nn.functional.conv1d(wav[:, None], self.basis, stride=self.hop)
        re, im = out.chunk(2, dim=1)
        return (re**2 + im**2 + 1e-3).log()


class GRUDirection(nn.Module):
    def __init__(self, n_in, n_hid, backwards):
        super().__init__()
        self.backwards = backwards
        self.n_hid = n_hid
        self.inp = nn.Linear(n_in, 3 * n_hid)
        self.rec = nn.Linear(n_hid, 3 * n_hid)

    def forward(self, x):
        steps = x.shape[1]
        gates_x = self.inp(x)
        h = x.new_zeros(x.shape[0], self.n_hid)
        outs = [None] * steps
        order = reversed(range(steps)) if self.backwards else range(steps)
        for t in order:
            xr, xz, xn = gates_x[:, t].chunk(3, dim=-1)
            hr, hz, hn = self.rec(h).chunk(3, dim=-1)
            r = torch.sigmoid(xr + hr)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = n + z * (h - n)
            outs[t] = h
        return torch.stack(outs, dim=1)


class SpeechNet(nn.Module):
    def __init__(self, c=24, h=16, vocab=7):
        super().__init__()
        self.dft = DFT()
        self.encoder = nn.Sequential(
            nn.Conv1d(17, c, 3, padding=1),
            nn.BatchNorm1d(c),
            nn.GELU(),
            nn.Conv1d(c, c, 3, stride=2, padding=1),
            nn.BatchNorm1d(c),
            nn.GELU(),
        )
        self.fwd = GRUDirection(c, h, False)
        self.bwd = GRUDirection(c, h, True)
        self.classifier = nn.Linear(2 * h, vocab)

    def forward(self, wav):
        feats = self.encoder(self.dft(wav)).mT
        both = torch.cat([self.fwd(feats), self.bwd(feats)], dim=-1)
        return torch.log_softmax(self.classifier(both), dim=-1)


def ctc_nll(logp, target):
    """Forward algorithm of CTC for one utterance: logp (T, V), target (U,)."""
    ext = torch.zeros(2 * len(target) + 1, dtype=torch.long)
    ext[1::2] = target
    skip = torch.zeros(len(ext), dtype=torch.bool)
    skip[2:] = (ext[2:] != 0) & (ext[2:] != ext[:-2])
    neg = torch.tensor(-1e30)
    alpha = torch.where(torch.arange(len(ext)) < 2, logp[0, ext], neg)
    for t in range(1, logp.shape[0]):
        one = torch.cat([neg[None], alpha[:-1]])
        two = torch.where(skip, torch.cat([neg[None], neg[None], alpha[:-2]]), neg)
        alpha = torch.logsumexp(torch.stack([alpha, one, two]), dim=0) + logp[t, ext]
    return -torch.logsumexp(alpha[-2:], dim=0)


def import_weights(model, sd):
    names = {
        "conv1.conv": "encoder.0",
        "conv1.bn": "encoder.1",
        "conv2.conv": "encoder.3",
        "conv2.bn": "encoder.4",
        "head": "classifier",
    }
    new = {"dft.basis": model.dft.basis}
    for key, value in sd.items():
        if key.startswith("gru."):
            side = "bwd" if key.endswith("_reverse") else "fwd"
            part = "inp" if "_ih_" in key else "rec"
            new[f"{side}.{part}.{'weight' if 'weight' in key else 'bias'}"] = value
        else:
            head, leaf = key.rsplit(".", 1)
            new[f"{names[head]}.{leaf}"] = value
    model.load_state_dict(new)


def main():
    model = SpeechNet()
    import_weights(model, torch.load("weights.pt"))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(3):
        rng = torch.Generator().manual_seed(100 + step)
        wav = torch.randn(4, 512, generator=rng)
        labels = torch.randint(1, 7, (4, 4), generator=rng)
        logp = model(wav)
        nll = [ctc_nll(logp[i], labels[i, :n]) for i, n in enumerate((4, 3, 2, 4))]
        loss = sum(nll) / len(nll)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
