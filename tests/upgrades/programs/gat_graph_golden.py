"""Graph attention network on a dense adjacency matrix (node classification)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N, FEAT, HEADS, HID, CLASSES = 18, 7, 3, 5, 4


def make_graph():
    g = torch.Generator().manual_seed(3)
    src = torch.randint(0, N, (50,), generator=g)
    dst = torch.randint(0, N, (50,), generator=g)
    keep = src != dst
    edges = torch.unique(torch.stack([src[keep], dst[keep]]), dim=1)
    x = torch.randn(N, FEAT, generator=g)
    y = torch.randint(0, CLASSES, (N,), generator=g)
    train = torch.rand(N, generator=g) < 0.6
    return x, y, train, edges


class DenseGATLayer(nn.Module):
    def __init__(self, fan_in, out, heads, concat):
        super().__init__()
        self.heads, self.out, self.concat = heads, out, concat
        self.lin = nn.Linear(fan_in, heads * out, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, out) * 0.3)
        self.att_dst = nn.Parameter(torch.randn(heads, out) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * out if concat else out))

    def forward(self, x, adj):
        h = self.lin(x).view(-1, self.heads, self.out)
        e_src = (h * self.att_src).sum(-1)
        e_dst = (h * self.att_dst).sum(-1)
        # scores[i, j]: node i receives from node j
        scores = F.leaky_relu(e_dst[:, None] + e_src[None, :], 0.2)
        scores = scores.masked_fill(~adj[..., None], float("-inf"))
        alpha = torch.softmax(scores, dim=1)
        out = torch.einsum("ijh,jhd->ihd", alpha, h)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = DenseGATLayer(FEAT, HID, HEADS, concat=True)
        self.conv2 = DenseGATLayer(HEADS * HID, CLASSES, HEADS, concat=False)

    def forward(self, x, adj):
        x = F.elu(self.conv1(x, adj))
        return F.log_softmax(self.conv2(x, adj), dim=1)


def build():
    return GAT()


def main():
    x, y, train, edges = make_graph()
    adj = torch.eye(N, dtype=torch.bool)
    adj[edges[1], edges[0]] = True
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    for epoch in range(3):
        out = net(x, adj)
        loss = F.nll_loss(out[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {epoch}: loss {loss.item():.9f}")
    with torch.no_grad():
        held = F.nll_loss(net(x, adj)[~train], y[~train])
    print(f"held-out loss {held.item():.9f}")


if __name__ == "__main__":
    main()
