"""Graph attention over edge lists (scatter style), property regression on small molecules."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 32
HEADS = 4
ATOMS = 10
BONDS = 4


def scatter_sum(src, index, size):
    out = src.new_zeros((size,) + src.shape[1:])
    return out.index_add(0, index, src)


def scatter_softmax(scores, index, size):
    peak = scores.new_full((size, scores.shape[1]), float("-inf"))
    peak = peak.scatter_reduce(0, index[:, None].expand_as(scores), scores.detach(), reduce="amax")
    weight = (scores - peak[index]).exp()
    total = scatter_sum(weight, index, size)
    return weight / total[index]


class GATLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin_src = nn.Linear(DIM, DIM, bias=False)
        self.lin_dst = nn.Linear(DIM, DIM, bias=False)
        self.bond = nn.Embedding(BONDS, DIM)
        self.att = nn.Parameter(torch.randn(HEADS, DIM // HEADS))
        self.bias = nn.Parameter(torch.zeros(DIM))

    def forward(self, x, edge_index, bonds):
        src, dst = edge_index
        n = x.shape[0]
        left = self.lin_src(x).view(n, HEADS, -1)
        right = self.lin_dst(x).view(n, HEADS, -1)
        edge = self.bond(bonds).view(-1, HEADS, DIM // HEADS)
        hidden = F.leaky_relu(left[src] + right[dst] + edge, 0.2)
        alpha = scatter_softmax((hidden * self.att).sum(-1), dst, n)
        out = scatter_sum(alpha[..., None] * left[src], dst, n)
        return out.reshape(n, DIM) + self.bias


class GraphNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))
        self.bias = nn.Parameter(torch.zeros(DIM))
        self.mean_scale = nn.Parameter(torch.ones(DIM))

    def forward(self, x, batch, graphs):
        count = scatter_sum(torch.ones_like(x[:, :1]), batch, graphs)
        mean = scatter_sum(x, batch, graphs) / count
        centered = x - mean[batch] * self.mean_scale
        var = scatter_sum(centered * centered, batch, graphs) / count
        return self.weight * centered / (var + 1e-5).sqrt()[batch] + self.bias


class MoleculeNet(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, DIM)
        self.layers = nn.ModuleList([GATLayer() for _ in range(depth)])
        self.norms = nn.ModuleList([GraphNorm() for _ in range(depth)])
        self.readout = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.SiLU(), nn.Linear(DIM, 1))

    def forward(self, atoms, edge_index, bonds, batch, graphs):
        x = self.atom(atoms)
        for layer, norm in zip(self.layers, self.norms):
            x = x + F.elu(norm(layer(x, edge_index, bonds), batch, graphs))
        total = scatter_sum(x, batch, graphs)
        top = x.new_full((graphs, DIM), float("-inf"))
        top = top.scatter_reduce(0, batch[:, None].expand_as(x), x, reduce="amax")
        return self.readout(torch.cat([total, top], dim=-1)).squeeze(-1)


def build():
    torch.manual_seed(31)
    model = MoleculeNet()
    with torch.no_grad():
        for norm in model.norms:
            norm.mean_scale.uniform_(0.5, 1.0)
    return model


def molecules(gen, count):
    """Random directed graphs: list of (atoms, list of (src, dst, bond)); bond 0 is the self loop."""
    out = []
    for _ in range(count):
        n = int(torch.randint(4, 9, (1,), generator=gen))
        atoms = torch.randint(0, ATOMS, (n,), generator=gen)
        linked = torch.rand(n, n, generator=gen) < 0.4
        kinds = torch.randint(1, BONDS, (n, n), generator=gen)
        edges = [(i, i, 0) for i in range(n)]
        for i in range(n):
            for j in range(n):
                if i != j and linked[i, j]:
                    edges.append((i, j, int(kinds[i, j])))
        out.append((atoms, edges))
    return out


def collate(graphs):
    atoms, src, dst, bonds, batch = [], [], [], [], []
    offset = 0
    for g, (a, edges) in enumerate(graphs):
        atoms.append(a)
        batch += [g] * len(a)
        src += [i + offset for i, _, _ in edges]
        dst += [j + offset for _, j, _ in edges]
        bonds += [k for _, _, k in edges]
        offset += len(a)
    return torch.cat(atoms), torch.tensor([src, dst]), torch.tensor(bonds), torch.tensor(batch)


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    gen = torch.Generator().manual_seed(32)
    for step in range(3):
        graphs = molecules(gen, 6)
        labels = torch.randn(6, generator=gen)
        atoms, edge_index, bonds, batch = collate(graphs)
        pred = model(atoms, edge_index, bonds, batch, len(graphs))
        loss = F.smooth_l1_loss(pred, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item(), "mae", (pred - labels).abs().mean().item())


if __name__ == "__main__":
    main()
