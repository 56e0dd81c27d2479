"""Click model with one joint embedding bag table and a batched interaction."""

import torch
import torch.nn.functional as F
from torch import nn

CARDINALITY = (11, 7, 19, 5)
N_DENSE = 6
WIDTH = 8


def gaussian(seed, *shape):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=gen) * 0.2


class JointTable(nn.Module):
    """All tables stacked; ids are moved by the start of their table."""

    def __init__(self, sizes, width):
        super().__init__()
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.register_buffer("starts", torch.tensor(starts))
        self.n_feat = len(sizes)
        self.weight = nn.Parameter(torch.cat([gaussian(i, s, width) for i, s in enumerate(sizes)]))

    def forward(self, ids):
        """ids: (batch, features, bag), -1 = empty slot"""
        n = ids.shape[0]
        valid = ids >= 0
        flat = (ids + self.starts[None, :, None])[valid]
        lengths = valid.sum(-1).reshape(-1)
        offsets = lengths.cumsum(0) - lengths
        out = F.embedding_bag(flat, self.weight, offsets, mode="mean")
        return out.view(n, self.n_feat, -1)


class Interaction(nn.Module):
    def __init__(self, n):
        super().__init__()
        rows, cols = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("cols", cols)

    def forward(self, stack):
        gram = torch.bmm(stack, stack.transpose(1, 2))
        return gram[:, self.rows, self.cols]


def dense_layer(index, fan_in, fan_out):
    layer = nn.Linear(fan_in, fan_out)
    layer.weight = nn.Parameter(gaussian(20 + index, fan_out, fan_in) * 2)
    layer.bias = nn.Parameter(gaussian(30 + index, fan_out))
    return layer


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        n = len(CARDINALITY) + 1
        self.table = JointTable(CARDINALITY, WIDTH)
        self.fc1 = dense_layer(0, N_DENSE, 16)
        self.fc2 = dense_layer(1, 16, WIDTH)
        self.inter = Interaction(n)
        self.fc3 = dense_layer(2, WIDTH + n * (n - 1) // 2, 16)
        self.fc4 = dense_layer(3, 16, 1)

    def forward(self, dense, ids):
        d = F.relu(self.fc2(F.relu(self.fc1((1 + dense).log()))))
        stack = torch.cat([d.unsqueeze(1), self.table(ids)], dim=1)
        z = torch.cat((d, self.inter(stack)), dim=-1)
        return self.fc4(F.relu(self.fc3(z)))[:, 0]


class Adagrad:
    def __init__(self, params, lr, eps=1e-10):
        self.params = list(params)
        self.sums = [torch.zeros_like(p) for p in self.params]
        self.lr, self.eps = lr, eps

    @torch.no_grad()
    def step(self):
        for p, s in zip(self.params, self.sums):
            s.add_(p.grad.square())
            p.sub_(self.lr * p.grad / (s.sqrt() + self.eps))

    def zero(self):
        for p in self.params:
            p.grad = None


def log_loss(logits, click):
    # log(1 + exp(x)) - x * y
    return (F.softplus(logits) - logits * click).mean()


def batches(count, n=16):
    for k in range(count):
        g = torch.Generator().manual_seed(50 + k)
        dense = torch.rand(n, N_DENSE, generator=g) * 20
        ids = torch.stack([torch.randint(-1, c, (n, 3), generator=g) for c in CARDINALITY], dim=1)
        click = (torch.rand(n, generator=g) < 0.3).float()
        yield dense, ids, click


def main():
    model = ClickModel()
    optim = Adagrad(model.parameters(), lr=0.05)
    for k, (dense, ids, click) in enumerate(batches(3)):
        optim.zero()
        logits = model(dense, ids)
        loss = log_loss(logits, click)
        loss.backward()
        optim.step()
        print(f"step {k}: logloss {loss.item():.9f} ctr {torch.sigmoid(logits).mean().item():.9f}")


if __name__ == "__main__":
    main()
