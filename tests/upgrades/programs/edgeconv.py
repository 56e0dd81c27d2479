import torch
from torch import nn


class EdgeLayer(nn.Module):
    """W [x_j - x_i ; x_i] + b, without building the edge features: one product per point."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.w_edge = nn.Parameter(torch.empty(d_out, d_in))
        self.w_self = nn.Parameter(torch.empty(d_out, d_in))
        self.bias = nn.Parameter(torch.empty(d_out))
        self.norm = nn.GroupNorm(4, d_out)

    def forward(self, x, neighbours):
        # x (B, N, C); leaky_relu is monotonous, so the maximum over neighbours may go first
        per_point = x @ self.w_edge.t()
        own = x @ (self.w_self - self.w_edge).t() + self.bias
        batch = torch.arange(x.shape[0])[:, None, None]
        best = per_point[batch, neighbours].amax(dim=2)
        out = nn.functional.leaky_relu(best + own, 0.2)
        return self.norm(out.transpose(1, 2)).transpose(1, 2)


class PointClassifier(nn.Module):
    def __init__(self, n_neighbours=5):
        super().__init__()
        self.n_neighbours = n_neighbours
        self.layers = nn.ModuleList([EdgeLayer(3, 16), EdgeLayer(16, 32)])
        self.fuse = nn.Linear(48, 32)
        self.mlp = nn.Sequential(nn.Linear(64, 24), nn.LeakyReLU(0.2), nn.Linear(24, 5))

    def forward(self, cloud):
        with torch.no_grad():
            dist = torch.cdist(cloud, cloud, compute_mode="donot_use_mm_for_euclid_dist")
            neighbours = dist.argsort(dim=-1)[..., : self.n_neighbours]
        feats, x = [], cloud
        for layer in self.layers:
            x = layer(x, neighbours)
            feats.append(x)
        x = nn.functional.leaky_relu(self.fuse(torch.cat(feats, dim=-1)), 0.2)
        return self.mlp(torch.cat([x.amax(dim=1), x.mean(dim=1)], dim=-1))


class NesterovSGD:
    def __init__(self, params, lr, mu):
        self.params, self.lr, self.mu = list(params), lr, mu
        self.velocity = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(self.mu).add_(p.grad)
            p -= self.lr * (p.grad + self.mu * v)
            p.grad = None


def smoothed_ce(logits, y, eps=0.2):
    logp = logits - logits.logsumexp(dim=-1, keepdim=True)
    hit = logp[torch.arange(len(y)), y]
    return -((1 - eps) * hit + eps * logp.mean(dim=-1)).mean()


def convert(sd):
    out = {}
    for i in (1, 2):
        w = sd[f"edge{i}.conv.weight"][:, :, 0, 0]
        a, b = w.chunk(2, dim=1)
        out[f"layers.{i - 1}.w_edge"], out[f"layers.{i - 1}.w_self"] = a, b
        out[f"layers.{i - 1}.bias"] = sd[f"edge{i}.conv.bias"]
        out[f"layers.{i - 1}.norm.weight"] = sd[f"edge{i}.gn.weight"]
        out[f"layers.{i - 1}.norm.bias"] = sd[f"edge{i}.gn.bias"]
    out["fuse.weight"], out["fuse.bias"] = sd["fuse.weight"][:, :, 0], sd["fuse.bias"]
    for j, name in ((0, "linear1"), (2, "linear2")):
        out[f"mlp.{j}.weight"], out[f"mlp.{j}.bias"] = sd[f"{name}.weight"], sd[f"{name}.bias"]
    return out


def main():
    net = PointClassifier()
    net.load_state_dict(convert(torch.load("weights.pt")))
    opt = NesterovSGD(net.parameters(), lr=0.05, mu=0.9)
    g = torch.Generator().manual_seed(7)
    for step in range(3):
        cloud = torch.randn(6, 3, 32, generator=g).transpose(1, 2).contiguous()
        y = torch.randint(0, 5, (6,), generator=g)
        loss = smoothed_ce(net(cloud), y)
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
