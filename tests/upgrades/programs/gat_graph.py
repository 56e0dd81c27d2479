"""GAT with edge lists and scatter operations."""

import torch
import torch.nn.functional as F
from torch import nn


def load_graph(n=18, feat=7, classes=4):
    g = torch.Generator().manual_seed(3)
    a = torch.randint(0, n, (50,), generator=g)
    b = torch.randint(0, n, (50,), generator=g)
    pairs = torch.unique(torch.stack([a, b])[:, a != b], dim=1)
    x = torch.randn(n, feat, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    mask = torch.rand(n, generator=g) < 0.6
    return x, y, mask, pairs


def add_self_loops(edge_index, n):
    loops = torch.arange(n).repeat(2, 1)
    return torch.cat([edge_index, loops], dim=1)


def scatter_softmax(values, index, n):
    """softmax of values (edges, heads) among the edges with the same index"""
    idx = index[:, None].expand_as(values)
    top = torch.full((n, values.shape[1]), -1e30).scatter_reduce(0, idx, values.detach(), "amax")
    ex = torch.exp(values - top[index])
    total = torch.zeros(n, values.shape[1]).index_add(0, index, ex)
    return ex / total[index]


class EdgeAttention(nn.Module):
    def __init__(self, heads, out):
        super().__init__()
        self.a = nn.Parameter(torch.zeros(heads, 2 * out))

    def forward(self, h, edge_index):
        src, dst = edge_index
        both = torch.cat([h[dst], h[src]], dim=-1)
        return F.leaky_relu(torch.einsum("ehk,hk->eh", both, self.a), negative_slope=0.2)


class GraphConv(nn.Module):
    def __init__(self, fan_in, out, heads, merge):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, fan_in, out))
        self.att = EdgeAttention(heads, out)
        self.bias = nn.Parameter(torch.zeros(heads * out if merge == "cat" else out))
        self.merge = merge

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = torch.einsum("nf,hfo->nho", x, self.weight)
        alpha = scatter_softmax(self.att(h, edge_index), dst, x.shape[0])
        msg = alpha.unsqueeze(-1) * h[src]
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        if self.merge == "cat":
            return agg.reshape(len(agg), -1) + self.bias
        return agg.sum(1) / agg.shape[1] + self.bias


class Model(nn.Module):
    def __init__(self, feat=7, hid=5, heads=3, classes=4):
        super().__init__()
        self.layers = nn.ModuleList([
            GraphConv(feat, hid, heads, "cat"),
            GraphConv(heads * hid, classes, heads, "mean"),
        ])
        self.act = nn.ELU()

    def forward(self, x, edge_index):
        for i, layer in enumerate(self.layers):
            x = layer(x, edge_index)
            if i + 1 < len(self.layers):
                x = self.act(x)
        return x

    @torch.no_grad()
    def import_state(self, sd):
        for layer, name in zip(self.layers, ("conv1", "conv2")):
            heads, fan_in, out = layer.weight.shape
            layer.weight.copy_(sd[name + ".lin.weight"].view(heads, out, fan_in).transpose(1, 2))
            layer.att.a.copy_(torch.cat([sd[name + ".att_dst"], sd[name + ".att_src"]], dim=1))
            layer.bias.copy_(sd[name + ".bias"])


def sgd_step(params, bufs, lr=0.03, mu=0.9, wd=1e-3):
    with torch.no_grad():
        for i, p in enumerate(params):
            grad = p.grad + wd * p
            bufs[i] = grad if bufs[i] is None else mu * bufs[i] + grad
            p.sub_(lr * bufs[i])
            p.grad = None


def masked_nll(logits, y, mask):
    per_node = torch.logsumexp(logits, 1) - logits[torch.arange(len(y)), y]
    return (per_node * mask).sum() / mask.sum()


def main():
    x, y, mask, pairs = load_graph()
    edge_index = add_self_loops(pairs, len(x))
    model = Model()
    model.import_state(torch.load("weights.pt"))
    params = list(model.parameters())
    bufs = [None] * len(params)
    for epoch in range(3):
        loss = masked_nll(model(x, edge_index), y, mask)
        loss.backward()
        sgd_step(params, bufs)
        print(f"epoch {epoch}: loss {loss.item():.9f}")
    with torch.no_grad():
        print(f"held-out loss {masked_nll(model(x, edge_index), y, ~mask).item():.9f}")


if __name__ == "__main__":
    main()
