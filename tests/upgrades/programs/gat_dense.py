"""Graph attention on padded dense adjacency matrices, property regression on small molecules."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 32
HEADS = 4
ATOMS = 10
BONDS = 4


class DenseGAT(nn.Module):
    """adj[b, i, j] is true for an edge from i to j."""

    def __init__(self):
        super().__init__()
        self.lin_src = nn.Linear(DIM, DIM, bias=False)
        self.lin_dst = nn.Linear(DIM, DIM, bias=False)
        self.bond = nn.Embedding(BONDS, DIM)
        self.att = nn.Parameter(torch.randn(HEADS, DIM // HEADS))
        self.bias = nn.Parameter(torch.zeros(DIM))

    def forward(self, x, adj, bonds):
        b, n, _ = x.shape
        left = self.lin_src(x).view(b, n, HEADS, -1)
        right = self.lin_dst(x).view(b, n, HEADS, -1)
        edge = self.bond(bonds).view(b, n, n, HEADS, -1)
        hidden = left[:, :, None] + right[:, None, :] + edge
        hidden = F.leaky_relu(hidden, 0.2)
        scores = torch.einsum("bijhd,hd->bijh", hidden, self.att)
        scores = scores.masked_fill(~adj[..., None], -1e9)
        alpha = scores.softmax(dim=1)
        alpha = alpha * adj[..., None]
        out = torch.einsum("bijh,bihd->bjhd", alpha, left)
        return out.reshape(b, n, DIM) + self.bias


class MaskedGraphNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))
        self.bias = nn.Parameter(torch.zeros(DIM))
        self.mean_scale = nn.Parameter(torch.ones(DIM))

    def forward(self, x, mask):
        keep = mask[..., None].to(x.dtype)
        count = keep.sum(dim=1, keepdim=True)
        mean = (x * keep).sum(dim=1, keepdim=True) / count
        centered = (x - mean * self.mean_scale) * keep
        var = centered.pow(2).sum(dim=1, keepdim=True) / count
        normed = centered / (var + 1e-5).sqrt()
        return self.weight * normed + self.bias


class DenseMoleculeNet(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, DIM)
        self.layers = nn.ModuleList([DenseGAT() for _ in range(depth)])
        self.norms = nn.ModuleList([MaskedGraphNorm() for _ in range(depth)])
        self.readout = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.SiLU(), nn.Linear(DIM, 1))

    def pool(self, x, mask):
        total = x.masked_fill(~mask[..., None], 0.0).sum(dim=1)
        top = x.masked_fill(~mask[..., None], float("-inf")).amax(dim=1)
        return torch.cat([total, top], dim=-1)

    def forward(self, atoms, adj, bonds, mask):
        x = self.atom(atoms)
        for layer, norm in zip(self.layers, self.norms):
            update = norm(layer(x, adj, bonds), mask)
            x = x + F.elu(update)
        return self.readout(self.pool(x, mask)).squeeze(-1)


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


def collate_dense(graphs):
    size = max(len(atoms) for atoms, _ in graphs)
    atoms = torch.zeros(len(graphs), size, dtype=torch.long)
    mask = torch.zeros(len(graphs), size, dtype=torch.bool)
    adj = torch.zeros(len(graphs), size, size, dtype=torch.bool)
    bonds = torch.zeros(len(graphs), size, size, dtype=torch.long)
    for g, (a, edges) in enumerate(graphs):
        atoms[g, : len(a)] = a
        mask[g, : len(a)] = True
        for i, j, kind in edges:
            adj[g, i, j] = True
            bonds[g, i, j] = kind
    return atoms, adj, bonds, mask


def main():
    torch.manual_seed(31)
    model = DenseMoleculeNet()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    gen = torch.Generator().manual_seed(32)
    for step in range(3):
        graphs = molecules(gen, 6)
        labels = torch.randn(6, generator=gen)
        atoms, adj, bonds, mask = collate_dense(graphs)
        pred = model(atoms, adj, bonds, mask)
        loss = F.smooth_l1_loss(pred, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item(), "mae", (pred - labels).abs().mean().item())


if __name__ == "__main__":
    main()
