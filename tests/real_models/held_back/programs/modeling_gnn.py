"""A graph convolution and a graph attention network."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Convolution(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer, bias=False)
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x, source, target):
        x = self.linear(x)
        degree = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
        scale = degree.clamp(min=1).pow(-0.5)
        weight = scale[source] * scale[target]
        messages = x[source] * weight[:, None]
        out = torch.zeros_like(x).index_add(0, target, messages)
        return out + self.bias


class Attention(nn.Module):
    def __init__(self, inner, outer, heads):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(inner, outer, bias=False)
        self.from_source = nn.Parameter(torch.zeros(heads, outer // heads))
        self.from_target = nn.Parameter(torch.zeros(heads, outer // heads))

    def forward(self, x, source, target):
        nodes = x.shape[0]
        h = self.linear(x).view(nodes, self.heads, -1)
        sent = (h * self.from_source).sum(dim=-1)
        received = (h * self.from_target).sum(dim=-1)
        scores = F.leaky_relu(sent[source] + received[target], 0.2)
        scores = torch.exp(scores - scores.max())
        total = torch.zeros(nodes, self.heads, dtype=x.dtype).index_add(0, target, scores)
        weights = scores / (total[target] + 1e-16)
        messages = h[source] * weights.unsqueeze(-1)
        out = torch.zeros_like(h).index_add(0, target, messages)
        return out.flatten(1)


class GraphNet(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.first = Convolution(features, width)
        self.norm = nn.BatchNorm1d(width)
        self.second = Attention(width, width, heads=4)
        self.skip = nn.Linear(features, width)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(width, classes)

    def forward(self, x, edges, graph):
        source, target = edges
        h = self.first(x, source, target)
        h = F.relu(self.norm(h))
        h = self.drop(h)
        h = self.second(h, source, target)
        h = F.elu(h + self.skip(x))
        graphs = int(graph.max()) + 1
        size = torch.zeros(graphs, dtype=h.dtype).index_add(0, graph, torch.ones_like(graph, dtype=h.dtype))
        pooled = torch.zeros(graphs, h.shape[1], dtype=h.dtype).index_add(0, graph, h)
        pooled = pooled / size[:, None]
        return self.head(pooled)
