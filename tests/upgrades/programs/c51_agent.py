"""Categorical DQN (C51): noisy dueling net, double-Q target, n-step returns, fake replay."""

import copy

import torch
from torch import nn

ATOMS, V_MIN, V_MAX = 21, -3.0, 3.0
SUPPORT = torch.linspace(V_MIN, V_MAX, ATOMS)
DELTA = (V_MAX - V_MIN) / (ATOMS - 1)
GAMMA, N_STEP = 0.9, 3


class NoisyLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.n_in, self.n_out = n_in, n_out
        bound = n_in**-0.5
        self.w = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, bound))
        self.w_sigma = nn.Parameter(torch.full((n_out, n_in), 0.5 * bound))
        self.b = nn.Parameter(torch.zeros(n_out))
        self.b_sigma = nn.Parameter(torch.full((n_out,), 0.5 * bound))

    def forward(self, x):
        e_in, e_out = torch.randn(self.n_in), torch.randn(self.n_out)
        f_in = e_in.sign() * e_in.abs().sqrt()
        f_out = e_out.sign() * e_out.abs().sqrt()
        w = self.w + self.w_sigma * torch.outer(f_out, f_in)
        b = self.b + self.b_sigma * f_out
        return x @ w.t() + b


class DuelingC51(nn.Module):
    def __init__(self, obs, actions, hidden=32):
        super().__init__()
        self.actions = actions
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = NoisyLinear(hidden, ATOMS)
        self.adv = NoisyLinear(hidden, actions * ATOMS)

    def forward(self, s):
        h = self.body(s)
        v = self.value(h).view(-1, 1, ATOMS)
        a = self.adv(h).view(-1, self.actions, ATOMS)
        q = v + a - a.mean(dim=1, keepdim=True)
        return q.log_softmax(dim=-1)


def nstep(rewards, dones):
    ret, alive = torch.zeros(len(rewards)), torch.ones(len(rewards))
    for k in range(rewards.size(1)):
        ret = ret + alive * GAMMA**k * rewards[:, k]
        alive = alive * (1.0 - dones[:, k])
    return ret, alive


def project(prob, ret, alive):
    tz = ret[:, None] + GAMMA**N_STEP * alive[:, None] * SUPPORT[None, :]
    tz = tz.clamp(V_MIN, V_MAX)
    pos = ((tz - V_MIN) / DELTA).clamp(0, ATOMS - 1)
    low, high = pos.floor().long(), pos.ceil().long()
    same = (low == high).float()
    out = torch.zeros_like(prob)
    out.scatter_add_(1, low, prob * (high.float() - pos + same))
    out.scatter_add_(1, high, prob * (pos - low.float()))
    return out


class Agent:
    def __init__(self, obs=6, actions=4):
        self.online = DuelingC51(obs, actions)
        self.target = copy.deepcopy(self.online)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-2, eps=1.5e-4)
        self.tau = 0.1

    def update(self, s, a, rewards, dones, s2, is_weight):
        with torch.no_grad():
            best = (self.online(s2).exp() * SUPPORT).sum(-1).argmax(1)
            prob = self.target(s2).exp()[torch.arange(len(s2)), best]
            ret, alive = nstep(rewards, dones)
            m = project(prob, ret, alive)
        logp = self.online(s)[torch.arange(len(s)), a]
        kl = -(m * logp).sum(dim=1)
        loss = (is_weight * kl).mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        with torch.no_grad():
            for pt, po in zip(self.target.parameters(), self.online.parameters()):
                pt.mul_(1 - self.tau).add_(po, alpha=self.tau)
        return loss.item()


def replay(n=16):
    s, s2 = torch.randn(n, 6), torch.randn(n, 6)
    prio = torch.rand(n) + 0.1
    w = (n * prio / prio.sum()) ** -0.4
    return s, torch.randint(0, 4, (n,)), torch.randn(n, N_STEP), (torch.rand(n, N_STEP) < 0.15).float(), s2, w / w.max()


torch.manual_seed(99)
agent = Agent()
for it in range(3):
    print(f"step {it + 1} loss {agent.update(*replay()):.9f}")
