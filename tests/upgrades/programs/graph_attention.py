"""Attention over the neighbours in a graph."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)


class GATLayer(nn.Module):
    def __init__(self, n_in, n_out, heads, last=False):
        super().__init__()
        self.heads, self.n_out, self.last = heads, n_out, last
        self.lin = nn.Linear(n_in, heads * n_out, bias=False)
        self.src = nn.Parameter(torch.randn(heads, n_out) * 0.5)
        self.dst = nn.Parameter(torch.randn(heads, n_out) * 0.5)

    def forward(self, x, adj):
        h = self.lin(x).view(len(x), self.heads, self.n_out)
        left = (h * self.src).sum(-1)
        right = (h * self.dst).sum(-1)
        score = F.leaky_relu(left.unsqueeze(1) + right.unsqueeze(0), 0.2)
        score = score.masked_fill(~adj.unsqueeze(-1), float("-inf"))
        alpha = score.softmax(dim=1)
        out = torch.einsum("ijh,jhd->ihd", alpha, h)
        return out.mean(1) if self.last else F.elu(out.flatten(1))


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = GATLayer(6, 5, 3)
        self.two = GATLayer(15, 4, 2, last=True)

    def forward(self, x, adj):
        return self.two(self.one(x, adj), adj)


def make_graph(n, g):
    a = torch.rand(n, n, generator=g) < 0.25
    return a | a.t() | torch.eye(n, dtype=torch.bool)


g = torch.Generator().manual_seed(14)
adj = make_graph(12, g)
x = torch.randn(12, 6, generator=g)
y = torch.randint(0, 4, (12,), generator=g)
train = torch.arange(12) % 3 != 0
net = GAT()
opt = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=5e-3)
for epoch in range(3):
    logits = net(x, adj)
    loss = F.cross_entropy(logits[train], y[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"epoch {epoch} loss {loss.item():.9f}")
