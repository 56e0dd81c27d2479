"""DLRM-like click model: one table per feature, pairwise dot products in a loop."""

import torch
import torch.nn as nn

SIZES = [11, 7, 19, 5]
DENSE, EMB = 6, 8


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 0.2


def make_batch(step, n=16):
    g = torch.Generator().manual_seed(50 + step)
    dense = torch.rand(n, DENSE, generator=g) * 20
    # every feature is a bag of 3 ids; id -1 stands for "nothing"
    bags = [torch.randint(-1, size, (n, 3), generator=g) for size in SIZES]
    click = (torch.rand(n, generator=g) < 0.3).float()
    return dense, bags, click


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(s, EMB) for s in SIZES])
        self.bottom = nn.Sequential(nn.Linear(DENSE, 16), nn.ReLU(), nn.Linear(16, EMB), nn.ReLU())
        pairs = (len(SIZES) + 1) * len(SIZES) // 2
        self.top = nn.Sequential(nn.Linear(EMB + pairs, 16), nn.ReLU(), nn.Linear(16, 1))
        with torch.no_grad():
            for i, t in enumerate(self.tables):
                t.weight.copy_(draw(i, t.num_embeddings, EMB))
            for i, lin in enumerate([self.bottom[0], self.bottom[2], self.top[0], self.top[2]]):
                lin.weight.copy_(draw(20 + i, *lin.weight.shape) * 2)
                lin.bias.copy_(draw(30 + i, *lin.bias.shape))

    def lookup(self, table, ids):
        found = (ids >= 0).float()[..., None]
        vectors = table(ids.clamp(min=0)) * found
        return vectors.sum(1) / found.sum(1).clamp(min=1)

    def forward(self, dense, bags):
        d = self.bottom(torch.log1p(dense))
        feats = [d] + [self.lookup(t, b) for t, b in zip(self.tables, bags)]
        dots = []
        for i in range(len(feats)):
            for j in range(i):
                dots.append((feats[i] * feats[j]).sum(1))
        z = torch.cat([d, torch.stack(dots, dim=1)], dim=1)
        return self.top(z).squeeze(1)


def main():
    model = DLRM()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    criterion = nn.BCEWithLogitsLoss()
    for step in range(3):
        dense, bags, click = make_batch(step)
        logits = model(dense, bags)
        loss = criterion(logits, click)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: logloss {loss.item():.9f} ctr {logits.sigmoid().mean().item():.9f}")


if __name__ == "__main__":
    main()
