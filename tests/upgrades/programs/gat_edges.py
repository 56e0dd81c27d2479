"""Graph attention network on lists of edges, with scatter operations."""

import torch
from torch import nn
from torch.nn import functional as F

NODES, FEATURES, HEADS, WIDTH, CLASSES = 30, 9, 3, 8, 4


def edge_softmax(score, index, nodes):
    """Softmax over the edges that have the same index."""
    spread = index[:, None].expand_as(score)
    top = score.new_full((nodes, score.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, spread, score.detach(), "amax")
    weight = (score - top[index]).exp()
    total = score.new_zeros(nodes, score.shape[1]).index_add(0, index, weight)
    return weight / total[index]


class GraphAttention(nn.Module):
    def __init__(self, inputs, concat):
        super().__init__()
        self.concat = concat
        self.lin = nn.Linear(inputs, HEADS * WIDTH, bias=False)
        self.att_src = nn.Parameter(2 * torch.randn(HEADS, WIDTH))
        self.att_dst = nn.Parameter(2 * torch.randn(HEADS, WIDTH))
        self.bias = nn.Parameter(torch.randn(HEADS * WIDTH if concat else WIDTH) * 0.1)

    def forward(self, x, edges):
        src, dst = edges
        h = self.lin(x).view(-1, HEADS, WIDTH)
        source = (h * self.att_src).sum(-1)
        sink = (h * self.att_dst).sum(-1)
        score = F.leaky_relu(source[src] + sink[dst], 0.2)
        alpha = edge_softmax(score, dst, len(x))
        y = torch.zeros_like(h).index_add(0, dst, alpha[..., None] * h[src])
        return (y.flatten(1) if self.concat else y.mean(1)) + self.bias


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GraphAttention(FEATURES, concat=True)
        self.second = GraphAttention(HEADS * WIDTH, concat=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edges):
        x = F.elu(self.first(x, edges))
        return self.head(F.elu(self.second(x, edges)))


torch.manual_seed(17)
model = Gat()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
generator = torch.Generator().manual_seed(40)

for step in range(3):
    x = torch.randn(NODES, FEATURES, generator=generator)
    adjacency = (torch.rand(NODES, NODES, generator=generator) < 0.15).float()
    adjacency.fill_diagonal_(1.0)
    dst, src = adjacency.nonzero(as_tuple=True)
    labels = torch.zeros(NODES, CLASSES).index_add(0, dst, x[src, :CLASSES]).argmax(-1)
    loss = F.cross_entropy(model(x, (src, dst)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
