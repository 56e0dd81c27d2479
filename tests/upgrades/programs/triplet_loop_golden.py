"""Hard triplets, chosen in a matrix of distances that is filled with infinity."""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, PER, MARGIN = 4, 4, 0.3


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 8, 5, stride=2, padding=2)
        self.gn = nn.GroupNorm(2, 8)
        self.conv2 = nn.Conv1d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.leaky_relu(self.gn(self.conv1(x)), 0.1)
        x = F.leaky_relu(self.conv2(x), 0.1)
        return F.normalize(self.fc(x.mean(-1)), dim=-1)


def distances(e):
    sq = e.pow(2).sum(1)
    d2 = sq[:, None] + sq[None] - 2 * e @ e.t()
    return d2.clamp(min=1e-12).sqrt()


def hard_triplet(e, label):
    """Hardest positive and hardest negative inside the batch."""
    d = distances(e)
    same = label[:, None] == label[None]
    eye = torch.eye(len(label), dtype=torch.bool)
    positive = d.masked_fill(~same | eye, float("-inf")).max(1).values
    negative = d.masked_fill(same, float("inf")).min(1).values
    loss = F.relu(positive - negative + MARGIN)
    active = (loss > 0).float().sum().clamp(min=1)
    return loss.sum() / active, active


torch.manual_seed(31)
net = Embedder()
fast = net
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.5)
proto = torch.randn(CLASSES, 1, 32)
label = torch.arange(CLASSES).repeat_interleave(PER)
for it in range(4):
    x = proto[label] + 0.8 * torch.randn(len(label), 1, 32)
    loss, active = hard_triplet(fast(x), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"it {it} loss {loss.item():.9f} active {int(active)}")
