"""Hard triplets of unit vectors, chosen in a loop over the anchors."""

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
        v = self.fc(F.adaptive_avg_pool1d(x, 1).squeeze(-1))
        return v / v.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def hard_triplet(e, label):
    """For each anchor in a loop: farthest of its class, nearest of the others; unit vectors."""
    terms = []
    for i in range(len(label)):
        cos = torch.mv(e, e[i])
        gap = torch.sqrt((2 - 2 * cos).clamp(min=1e-12))
        mates = (label == label[i]) & (torch.arange(len(label)) != i)
        others = label != label[i]
        terms.append(gap[mates].max() - gap[others].min() + MARGIN)
    hinge = torch.stack(terms).clamp(min=0)
    active = hinge.gt(0).sum().clamp(min=1)
    return hinge.sum() / active, active


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
