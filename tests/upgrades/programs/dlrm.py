"""A model of recommendations: embedding bags and their interactions."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)
SIZES = (20, 30, 11)
DIM = 8


def mlp(*dims):
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Interaction(nn.Module):
    def forward(self, vecs):
        z = torch.stack(vecs, 1)
        sims = z @ z.transpose(1, 2)
        i, j = torch.tril_indices(len(vecs), len(vecs), offset=-1)
        return torch.cat([vecs[0], sims[:, i, j]], 1)


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.bottom = mlp(5, 16, DIM)
        self.tables = nn.ModuleList([nn.EmbeddingBag(n, DIM, mode="sum") for n in SIZES])
        self.inter = Interaction()
        pairs = (len(SIZES) + 1) * len(SIZES) // 2
        self.top = mlp(DIM + pairs, 16, 1)

    def forward(self, dense, sparse):
        d = F.relu(self.bottom(torch.log1p(dense)))
        vecs = [d] + [t(s) for t, s in zip(self.tables, sparse)]
        return self.top(self.inter(vecs)).squeeze(1)


class Loop:
    def __init__(self):
        self.model = DLRM()
        self.dense_opt = torch.optim.Adam([*self.model.bottom.parameters(), *self.model.top.parameters()], lr=5e-3)
        self.sparse_opt = torch.optim.SGD(self.model.tables.parameters(), lr=0.3)
        self.g = torch.Generator().manual_seed(32)

    def data(self):
        dense = torch.rand(12, 5, generator=self.g) * 4
        sparse = [torch.randint(0, n, (12, 3), generator=self.g) for n in SIZES]
        return dense, sparse, (torch.rand(12, generator=self.g) < 0.3).float()

    def run(self, steps):
        for i in range(steps):
            dense, sparse, click = self.data()
            loss = F.binary_cross_entropy_with_logits(self.model(dense, sparse), click)
            for o in (self.dense_opt, self.sparse_opt):
                o.zero_grad()
            loss.backward()
            self.dense_opt.step()
            self.sparse_opt.step()
            print(f"step {i} logloss {loss.item():.9f}")


Loop().run(3)
