"""DGCNN-style classifier of point clouds (channels first, conv2d on edge features)."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def knn(x, k):
    # x: (B, C, N)
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    pairwise = -xx - inner - xx.transpose(2, 1)
    return pairwise.topk(k=k, dim=-1)[1]


def get_graph_feature(x, idx):
    b, c, n = x.shape
    k = idx.shape[-1]
    flat = (idx + torch.arange(b).view(-1, 1, 1) * n).view(-1)
    pts = x.transpose(2, 1).contiguous()
    feature = pts.view(b * n, c)[flat].view(b, n, k, c)
    center = pts.view(b, n, 1, c).repeat(1, 1, k, 1)
    return torch.cat((feature - center, center), dim=3).permute(0, 3, 1, 2).contiguous()


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.conv = nn.Conv2d(2 * cin, cout, kernel_size=1, bias=True)
        self.gn = nn.GroupNorm(4, cout)

    def forward(self, x, idx):
        e = self.conv(get_graph_feature(x, idx))
        e = F.leaky_relu(e, 0.2).max(dim=-1)[0]
        return self.gn(e)


class DGCNN(nn.Module):
    def __init__(self, k=5, classes=5):
        super().__init__()
        self.k = k
        self.edge1 = EdgeConv(3, 16, k)
        self.edge2 = EdgeConv(16, 32, k)
        self.fuse = nn.Conv1d(48, 32, 1)
        self.linear1 = nn.Linear(64, 24)
        self.linear2 = nn.Linear(24, classes)

    def forward(self, x):
        idx = knn(x, self.k)
        x1 = self.edge1(x, idx)
        x2 = self.edge2(x1, idx)
        x = F.leaky_relu(self.fuse(torch.cat((x1, x2), dim=1)), 0.2)
        p1 = F.adaptive_max_pool1d(x, 1).squeeze(-1)
        p2 = F.adaptive_avg_pool1d(x, 1).squeeze(-1)
        x = torch.cat((p1, p2), 1)
        return self.linear2(F.leaky_relu(self.linear1(x), 0.2))


def build():
    return DGCNN()


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    g = torch.Generator().manual_seed(7)
    for step in range(3):
        points = torch.randn(6, 3, 32, generator=g)
        labels = torch.randint(0, 5, (6,), generator=g)
        loss = F.cross_entropy(model(points), labels, label_smoothing=0.2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
