"""PPO, other hands: actor and critic as one block net, advantages as one matrix product, one hand-made optimizer."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class PPO:
    envs: int = 4
    steps: int = 8
    obs: int = 6
    actions: int = 5
    gamma: float = 0.97
    lam: float = 0.9
    clip: float = 0.2
    entropy: float = 0.05


class Head(nn.Module):
    """The layers of one head behind a shared first product."""

    def __init__(self, sizes):
        super().__init__()
        self.w = nn.ParameterList(torch.zeros(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.b = nn.ParameterList(torch.zeros(b) for b in sizes[1:])

    def forward(self, h):
        h = torch.tanh(h)
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            h = h @ w + b
            if i < len(self.w) - 1:
                h = torch.tanh(h)
        return h


class ActorCritic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.first = nn.Linear(c.obs, 16 + 20)
        self.actor = Head([16, 16, c.actions])
        self.critic = Head([20, 1])

    def forward(self, obs):
        p, v = self.first(obs).split([16, 20], dim=-1)
        return F.log_softmax(self.actor(p), dim=-1), self.critic(v)[..., 0]

    @torch.no_grad()
    def seeded(self):
        """draws: actor w, b, w, b, w, b, critic w, b, w, b"""
        shapes = [(16, 6), (16,), (16, 16), (16,), (5, 16), (5,), (20, 6), (20,), (1, 20), (1,)]
        d = [torch.randn(s, generator=torch.Generator().manual_seed(60 + i)) * 0.5 for i, s in enumerate(shapes)]
        self.first.weight.copy_(torch.cat([d[0], d[6]]))
        self.first.bias.copy_(torch.cat([d[1], d[7]]))
        for dst, src in zip(self.actor.w, (d[2], d[4])):
            dst.copy_(src.t())
        for dst, src in zip(self.actor.b, (d[3], d[5])):
            dst.copy_(src)
        self.critic.w[0].copy_(d[8].t())
        self.critic.b[0].copy_(d[9])


def advantages(c, reward, value, done):
    """A = M @ delta with M[t, s] = prod of gamma * lam * alive between t and s"""
    alive = 1 - done
    delta = reward + c.gamma * alive * value[1:] - value[:-1]
    factor = c.gamma * c.lam * alive  # (steps, envs)
    m = torch.zeros(c.steps, c.steps, c.envs)
    for t in range(c.steps):
        run = torch.cat([torch.ones(1, c.envs), factor[t:-1].cumprod(0)])
        m[t, t:] = run
    return torch.einsum("tse,se->te", m, delta)


class MixedOptimizer:
    """Adam for the policy's numbers, RMSprop for the critic's; a mask says which, element by element."""

    def __init__(self, model, lr=1e-2):
        self.lr, self.t = lr, 0
        self.items = []
        for name, p in model.named_parameters():
            if name.startswith("first"):
                is_pi = (torch.arange(36) < 16).float()
                is_pi = is_pi.view(-1, *[1] * (p.dim() - 1)).expand_as(p)
            else:
                is_pi = torch.full_like(p, float(name.startswith("actor")))
            self.items.append((p, is_pi, torch.zeros_like(p), torch.zeros_like(p), torch.zeros_like(p)))

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, is_pi, m, v, sq in self.items:
            g = p.grad
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            sq.mul_(0.95).addcmul_(g, g, value=0.05)
            adam = (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)
            rms = g / (sq.sqrt() + 1e-8)
            p -= self.lr * torch.where(is_pi > 0, adam, rms)
            p.grad = None


def ppo_losses(c, model, obs, onehot, old, adv, target):
    logp, value = model(obs)
    chosen = (logp * onehot).sum(-1)
    ratio = torch.exp(chosen - old)
    low, high = torch.tensor(1 - c.clip), torch.tensor(1 + c.clip)
    bound = torch.where(adv >= 0, high * adv, low * adv)
    gain = torch.minimum(ratio * adv, bound)
    entropy = -(logp.exp() * logp).sum(-1)
    pi_loss = -(gain + c.entropy * entropy).mean()
    return pi_loss, 0.5 * F.mse_loss(value, target)


def main():
    c = PPO()
    model = ActorCritic(c)
    model.seeded()
    opt = MixedOptimizer(model)
    for it in range(2):
        g = torch.Generator().manual_seed(it)
        obs = torch.randn(c.steps + 1, c.envs, c.obs, generator=g)
        act = torch.randint(0, c.actions, (c.steps, c.envs), generator=g)
        reward = obs[:-1, :, 0] + 0.3 * act
        done = (torch.rand(c.steps, c.envs, generator=g) < 0.2).float()
        onehot = F.one_hot(act, c.actions).float()
        with torch.no_grad():
            logp, value = model(obs)
            adv = advantages(c, reward, value, done)
            target = adv + value[:-1]
            old = (logp[:-1] * onehot).sum(-1)
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for epoch in range(2):
            pi_loss, v_loss = ppo_losses(c, model, obs[:-1], onehot, old, adv, target)
            (pi_loss + v_loss).backward()
            opt.step()
            print(f"iteration {it} epoch {epoch}: policy {pi_loss.item():.9f} value {v_loss.item():.9f}")


if __name__ == "__main__":
    main()
