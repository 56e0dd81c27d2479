"""E(n) equivariant graph network predicts where charged particles go; trained with sharpness aware minimisation."""

import torch
from torch import nn

torch.manual_seed(23)
N_NODE, BATCH, HID = 5, 10, 20


class EGCL(nn.Module):
    def __init__(self, hid, edge_dim=1):
        super().__init__()
        self.phi_e = nn.Sequential(nn.Linear(2 * hid + 1 + edge_dim, hid), nn.SiLU(), nn.Linear(hid, hid), nn.SiLU())
        self.gate = nn.Linear(hid, 1)
        self.phi_h = nn.Sequential(nn.Linear(2 * hid, hid), nn.SiLU(), nn.Linear(hid, hid))
        self.phi_x = nn.Sequential(nn.Linear(hid, hid), nn.SiLU(), nn.Linear(hid, 1, bias=False))
        self.phi_v = nn.Sequential(nn.Linear(hid, hid), nn.SiLU(), nn.Linear(hid, 1))

    def forward(self, h, x, v, edges, edge_attr):
        row, col = edges
        diff = x[row] - x[col]
        sq = diff.pow(2).sum(-1, keepdim=True)
        m = self.phi_e(torch.cat([h[row], h[col], sq, edge_attr], dim=-1))
        m = m * torch.sigmoid(self.gate(m))
        trans = diff / (sq.sqrt() + 1) * self.phi_x(m)
        shift = torch.zeros_like(x).index_add(0, row, trans) / (N_NODE - 1)
        v = self.phi_v(h) * v + shift
        agg = torch.zeros_like(h).index_add(0, row, m)
        h = h + self.phi_h(torch.cat([h, agg], dim=-1))
        return h, x + v, v


class EGNN(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed = nn.Linear(2, HID)
        self.layers = nn.ModuleList([EGCL(HID) for _ in range(depth)])
        self.pace = nn.Linear(HID, 1)

    def forward(self, charge, x, v, edges):
        row, col = edges
        speed = v.norm(dim=-1, keepdim=True)
        h = self.embed(torch.cat([charge, speed], dim=-1))
        edge_attr = charge[row] * charge[col]
        start = x
        for layer in self.layers:
            h, x, v = layer(h, x, v, edges, edge_attr)
        return start + (1 + self.pace(h)) * (x - start)


class SAM:
    """Foret et al. 2021: climb to the worst neighbour, take the gradient there, step from the original point."""

    def __init__(self, params, rho, **kwargs):
        self.params, self.rho = list(params), rho
        self.base = torch.optim.SGD(self.params, **kwargs)

    @torch.no_grad()
    def climb(self):
        total = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.offsets = [self.rho * p.grad / (total + 1e-12) for p in self.params]
        for p, e in zip(self.params, self.offsets):
            p.add_(e)
        self.base.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self.offsets):
            p.sub_(e)
        self.base.step()
        self.base.zero_grad()


def simulate(charge, x, v, dt=0.02, steps=20):
    for _ in range(steps):
        diff = x[:, :, None] - x[:, None]
        dist = diff.norm(dim=-1, keepdim=True) + 0.3
        force = (charge[:, :, None] * charge[:, None] * diff / dist**3).sum(2)
        v = v + dt * force
        x = x + dt * v
    return x


def complete_edges(n, batch):
    pairs = torch.tensor([(i, j) for i in range(n) for j in range(n) if i != j]).T
    offset = torch.arange(batch).repeat_interleave(pairs.shape[1]) * n
    return pairs.repeat(1, batch) + offset


g = torch.Generator().manual_seed(9)
model = EGNN()
sam = SAM(model.parameters(), rho=0.05, lr=0.05, momentum=0.9)
edges = complete_edges(N_NODE, BATCH)
for step in range(3):
    charge = torch.randint(0, 2, (BATCH, N_NODE, 1), generator=g).float() * 2 - 1
    x, v = torch.randn(2, BATCH, N_NODE, 3, generator=g)
    x = x - x.mean(1, keepdim=True)
    target = simulate(charge, x, v * 0.5).flatten(0, 1)
    inputs = (charge.flatten(0, 1), x.flatten(0, 1), v.flatten(0, 1) * 0.5, edges)
    loss = (model(*inputs) - target).square().sum(-1).mean()
    loss.backward()
    sam.climb()
    (model(*inputs) - target).square().sum(-1).mean().backward()
    sam.descend()
    print(f"step {step} loss {loss.item():.9f}")
