"""A training of three steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F

MELS, SPEAKERS, WIDTH, EMB = 20, 10, 32, 24


def fake_utterances(n, gen, voices):
    """Filter-bank like sequences of different lengths, padded, with lengths and labels."""
    labels = torch.randint(0, SPEAKERS, (n,), generator=gen)
    lengths = torch.randint(25, 46, (n,), generator=gen)
    feats = torch.zeros(n, MELS, 45)
    for i in range(n):
        t = torch.arange(lengths[i])
        tone = torch.sin(0.3 * t[None, :] * (1 + voices[labels[i], :, None]))
        feats[i, :, : lengths[i]] = voices[labels[i], :, None] + 0.5 * tone
        feats[i, :, : lengths[i]] += 0.4 * torch.randn(MELS, len(t), generator=gen)
    return feats, lengths, labels


class TDNN(nn.Module):
    def __init__(self, c_in, c_out, kernel, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, kernel, dilation=dilation, padding=dilation * (kernel - 1) // 2)
        self.gain = nn.Parameter(torch.ones(c_out))
        self.shift = nn.Parameter(torch.zeros(c_out))

    def forward(self, x, mask):
        y = F.leaky_relu(self.conv(x), 0.1) * mask
        count = mask.sum(dim=(0, 2)).item()
        mean = y.sum(dim=(0, 2)) / count
        var = ((y - mean[None, :, None]).square() * mask).sum(dim=(0, 2)) / count
        y = (y - mean[None, :, None]) * torch.rsqrt(var + 1e-4)[None, :, None]
        return (y * self.gain[None, :, None] + self.shift[None, :, None]) * mask


class AttentiveStats(nn.Module):
    def __init__(self, dim, hidden=12):
        super().__init__()
        self.score = nn.Sequential(nn.Conv1d(dim, hidden, 1), nn.Tanh(), nn.Conv1d(hidden, dim, 1))

    def forward(self, x, mask):
        logits = self.score(x).masked_fill(mask == 0, float("-inf"))
        alpha = torch.softmax(logits, dim=2)
        mean = (alpha * x).sum(dim=2)
        second = (alpha * x * x).sum(dim=2)
        std = (second - mean * mean).clamp(min=1e-4).sqrt()
        return torch.cat([mean, std], dim=1)


class XVector(nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = nn.ModuleList([TDNN(MELS, WIDTH, 5, 1), TDNN(WIDTH, WIDTH, 3, 2), TDNN(WIDTH, WIDTH, 3, 3)])
        self.pool = AttentiveStats(WIDTH)
        self.project = nn.Linear(2 * WIDTH, EMB)

    def forward(self, feats, lengths):
        mask = (torch.arange(feats.size(2))[None, :] < lengths[:, None]).unsqueeze(1).float()
        h = self.frames[0](feats, mask)
        for layer in self.frames[1:]:
            h = h + layer(h, mask)
        return self.project(self.pool(h, mask))


class AAMSoftmax(nn.Module):
    def __init__(self, margin=0.2, scale=16.0):
        super().__init__()
        self.margin, self.scale = margin, scale
        self.centers = nn.Parameter(torch.empty(SPEAKERS, EMB))
        nn.init.xavier_normal_(self.centers)

    def forward(self, emb, labels):
        cosine = F.linear(F.normalize(emb), F.normalize(self.centers))
        angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
        with_margin = torch.cos(angle + self.margin)
        hit = F.one_hot(labels, SPEAKERS).bool()
        return F.cross_entropy(self.scale * torch.where(hit, with_margin, cosine), labels)


torch.manual_seed(40)
gen = torch.Generator().manual_seed(41)
voices = torch.randn(SPEAKERS, MELS, generator=gen)
net, criterion = XVector(), AAMSoftmax()
decay = [p for p in net.parameters() if p.ndim > 1]
plain = [p for p in net.parameters() if p.ndim <= 1]
groups = [{"params": decay, "weight_decay": 1e-3}, {"params": plain}, {"params": criterion.parameters(), "lr": 0.1}]
opt = torch.optim.SGD(groups, lr=0.03, momentum=0.9, nesterov=True)

for step in range(3):
    criterion.margin = 0.1 * step
    feats, lengths, labels = fake_utterances(16, gen, voices)
    loss = criterion(net(feats, lengths), labels)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
