import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

# Recurrent state space world model (posterior/prior, KL balancing) plus an actor trained in imagination.
OBS, ACT, DET, STO = 10, 2, 20, 6


def mlp(i, o, h=24):
    return nn.Sequential(nn.Linear(i, h), nn.ELU(), nn.Linear(h, o))


class Gaussian(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = mlp(n_in, 2 * STO)

    def forward(self, x):
        mean, raw = self.net(x).split(STO, dim=-1)
        return mean, F.softplus(raw) + 0.1


class RSSM(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(STO + ACT, DET), nn.ELU())
        self.gru = nn.GRUCell(DET, DET)
        self.prior = Gaussian(DET)
        self.post = Gaussian(DET + OBS)

    def advance(self, h, z, a):
        return self.gru(self.inp(torch.cat([z, a], -1)), h)

    def forward(self, obs, act, first):
        b, t, _ = obs.shape
        h, z = obs.new_zeros(b, DET), obs.new_zeros(b, STO)
        feats, priors, posts = [], [], []
        for i in range(t):
            keep = 1.0 - first[:, i, None]
            h = self.advance(h * keep, z * keep, act[:, i] * keep)
            pm, ps = self.prior(h)
            qm, qs = self.post(torch.cat([h, obs[:, i]], -1))
            z = qm + qs * torch.randn_like(qs)
            feats.append(torch.cat([h, z], -1))
            priors.append((pm, ps))
            posts.append((qm, qs))
        stats = [torch.stack(s, 1) for s in (*zip(*priors), *zip(*posts))]
        return torch.stack(feats, 1), stats


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.rssm = RSSM()
        self.dec = mlp(DET + STO, OBS)
        self.rew = mlp(DET + STO, 1)

    def forward(self, obs, act, first):
        feat, stats = self.rssm(obs, act, first)
        return feat, stats, self.dec(feat), self.rew(feat).squeeze(-1)


def kl_balance(stats, alpha=0.8, free=0.05):
    pm, ps, qm, qs = stats
    lhs = kl_divergence(Normal(qm.detach(), qs.detach()), Normal(pm, ps)).sum(-1).mean()
    rhs = kl_divergence(Normal(qm, qs), Normal(pm.detach(), ps.detach())).sum(-1).mean()
    return alpha * lhs.clamp(min=free) + (1 - alpha) * rhs.clamp(min=free)


def imagine(wm, actor, feat, horizon=4, gamma=0.95):
    start = feat.detach().flatten(0, 1)
    h, z = start.split([DET, STO], dim=-1)
    total, disc = 0.0, 1.0
    for _ in range(horizon):
        a = torch.tanh(actor(torch.cat([h, z], -1)))
        h = wm.rssm.advance(h, z, a)
        pm, ps = wm.rssm.prior(h)
        z = pm + ps * torch.randn_like(ps)
        total = total + disc * wm.rew(torch.cat([h, z], -1)).squeeze(-1)
        disc = disc * gamma
    return -total.mean()


def episodes(n=4, t=6):
    act = torch.rand(n, t, ACT) * 2 - 1
    pos = act.cumsum(1)
    obs = torch.cat([pos, pos.sin(), pos.cos(), torch.randn(n, t, OBS - 3 * ACT) * 0.1], -1)
    first = torch.zeros(n, t)
    first[:, 0] = 1
    first[::2, t // 2] = 1
    return obs, act, first, -pos.norm(dim=-1)


torch.manual_seed(17)
wm, actor = WorldModel(), mlp(DET + STO, ACT)
wm_opt = torch.optim.Adam(wm.parameters(), lr=1e-2)
actor_opt = torch.optim.Adam(actor.parameters(), lr=3e-2)
for step in range(1, 4):
    obs, act, first, reward = episodes()
    feat, stats, recon, rew = wm(obs, act, first)
    model_loss = F.mse_loss(recon, obs, reduction="none").sum(-1).mean() + F.mse_loss(rew, reward) + kl_balance(stats)
    wm_opt.zero_grad()
    model_loss.backward()
    nn.utils.clip_grad_norm_(wm.parameters(), 5.0)
    wm_opt.step()
    actor_loss = imagine(wm, actor, feat)
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    print(f"step {step} loss {model_loss.item() + actor_loss.item():.9f}")
