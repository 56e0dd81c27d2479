"""LightGCN on a bipartite graph of users and items: sparse propagation, edge dropout, BPR and a contrastive term."""

import torch
import torch.nn.functional as F
from torch import nn

USERS, ITEMS, WIDTH = 24, 40, 16
HOPS = 3
BATCH = 16


def make_interactions(seed):
    g = torch.Generator().manual_seed(seed)
    taste, style = torch.randn(USERS, 4, generator=g), torch.randn(ITEMS, 4, generator=g)
    popularity = torch.linspace(1.5, -1.5, ITEMS)
    liked = taste @ style.t() + popularity > 1.2
    liked[torch.arange(USERS), torch.randint(0, ITEMS, (USERS,), generator=g)] = True
    return liked.nonzero()


class Graph(nn.Module):
    """The symmetric normalised adjacency of users and items, kept as a sparse buffer."""

    def __init__(self, pairs):
        super().__init__()
        user, item = pairs[:, 0], pairs[:, 1] + USERS
        rows, cols = torch.cat([user, item]), torch.cat([item, user])
        degree = torch.bincount(rows, minlength=USERS + ITEMS).clamp(min=1).float()
        values = degree[rows].rsqrt() * degree[cols].rsqrt()
        matrix = torch.sparse_coo_tensor(torch.stack([rows, cols]), values, (USERS + ITEMS, USERS + ITEMS))
        self.register_buffer("adjacency", matrix.coalesce())

    def forward(self, keep_rate, generator):
        if not self.training:
            return self.adjacency
        values = self.adjacency.values()
        kept = torch.rand(len(values), generator=generator) < keep_rate
        return torch.sparse_coo_tensor(
            self.adjacency.indices()[:, kept], values[kept] / keep_rate, self.adjacency.shape
        ).coalesce()


class Propagate(nn.Module):
    """The mean over the layers of linear propagation, with learned weights of the layers."""

    def __init__(self, hops):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(hops + 1))

    def forward(self, adjacency, x):
        layers = [x]
        for _ in range(len(self.mix) - 1):
            layers.append(torch.sparse.mm(adjacency, layers[-1]))
        weights = torch.softmax(self.mix, dim=0)
        return torch.tensordot(torch.stack(layers, dim=1), weights, dims=([1], [0]))


class LightGCN(nn.Module):
    def __init__(self, pairs):
        super().__init__()
        self.graph = Graph(pairs)
        self.user = nn.Embedding(USERS, WIDTH)
        self.item = nn.Embedding(ITEMS, WIDTH)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)
        self.propagate = Propagate(HOPS)

    def forward(self, generator=None):
        adjacency = self.graph(0.8, generator)
        table = self.propagate(adjacency, torch.cat([self.user.weight, self.item.weight]))
        return table.split([USERS, ITEMS])


class Sampler:
    """Positive pairs at random, negatives by popularity, never among the items of the user."""

    def __init__(self, pairs, generator):
        self.pairs, self.generator = pairs, generator
        self.seen = torch.zeros(USERS, ITEMS, dtype=torch.bool)
        self.seen[pairs[:, 0], pairs[:, 1]] = True
        self.popularity = torch.bincount(pairs[:, 1], minlength=ITEMS).float().clamp(min=0.5) ** 0.75

    def draw(self):
        rows = torch.randint(0, len(self.pairs), (BATCH,), generator=self.generator)
        user, positive = self.pairs[rows].unbind(1)
        chances = self.popularity.expand(BATCH, ITEMS).masked_fill(self.seen[user], 0.0)
        negative = torch.multinomial(chances, 4, generator=self.generator)
        return user, positive, negative


def bpr_loss(users, items, user, positive, negative):
    anchor = users[user]
    up = (anchor * items[positive]).sum(-1, keepdim=True)
    down = torch.einsum("bd,bnd->bn", anchor, items[negative])
    return -F.logsigmoid(up - down).mean()


def contrast_loss(first, second, rows, temperature=0.2):
    """Two views of the same rows agree, against the others of the batch (SGL)."""
    rows = rows.unique()
    a, b = F.normalize(first[rows], dim=-1), F.normalize(second[rows], dim=-1)
    return F.cross_entropy(a @ b.t() / temperature, torch.arange(len(rows)))


def ridge(model, user, positive, negative):
    parts = [model.user(user), model.item(positive), model.item(negative)]
    return 0.5 * sum(part.pow(2).sum() for part in parts) / len(user)


@torch.no_grad()
def ndcg_margin(model, sampler):
    """A smooth quality: how far the seen items score above the rest, on the whole graph."""
    model.eval()
    users, items = model()
    scores = users @ items.t()
    seen = scores[sampler.seen].mean()
    unseen = scores[~sampler.seen].mean()
    model.train()
    return seen - unseen


def train():
    torch.manual_seed(17)
    pairs = make_interactions(seed=2)
    generator = torch.Generator().manual_seed(6)
    model = LightGCN(pairs)
    sampler = Sampler(pairs, generator)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=1e-3, lr_decay=0.1)
    for step in range(4):
        user, positive, negative = sampler.draw()
        users, items = model(generator)
        other_users, other_items = model(generator)
        loss = bpr_loss(users, items, user, positive, negative)
        loss = loss + 0.1 * contrast_loss(users, other_users, user)
        loss = loss + 0.1 * contrast_loss(items, other_items, positive)
        loss = loss + 0.01 * ridge(model, user, positive, negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f} margin {ndcg_margin(model, sampler).item():.9f}")


if __name__ == "__main__":
    train()
