"""PPO on a batch of recorded rollouts: two optimizers, GAE by a loop, torch distributions."""

import torch
import torch.nn as nn
from torch.distributions import Categorical

ENVS, STEPS, OBS, ACTIONS = 4, 8, 6, 5
GAMMA, LAM, CLIP = 0.97, 0.9, 0.2


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = mlp([OBS, 16, 16, ACTIONS])
        self.critic = mlp([OBS, 20, 1])

    def policy(self, obs):
        return Categorical(logits=self.actor(obs))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


def seeded(agent):
    for i, p in enumerate(agent.parameters()):
        p.data = torch.randn(p.shape, generator=torch.Generator().manual_seed(60 + i)) * 0.5


def rollout(seed):
    g = torch.Generator().manual_seed(seed)
    obs = torch.randn(STEPS + 1, ENVS, OBS, generator=g)
    actions = torch.randint(0, ACTIONS, (STEPS, ENVS), generator=g)
    reward = obs[:-1, :, 0] + 0.3 * actions
    done = (torch.rand(STEPS, ENVS, generator=g) < 0.2).float()
    return obs, actions, reward, done


def gae(reward, value, done):
    advantages = torch.zeros_like(reward)
    last = torch.zeros(ENVS)
    for t in reversed(range(STEPS)):
        alive = 1.0 - done[t]
        delta = reward[t] + GAMMA * value[t + 1] * alive - value[t]
        last = delta + GAMMA * LAM * alive * last
        advantages[t] = last
    return advantages, advantages + value[:-1]


def main():
    agent = Agent()
    seeded(agent)
    pi_opt = torch.optim.Adam(agent.actor.parameters(), lr=1e-2)
    v_opt = torch.optim.RMSprop(agent.critic.parameters(), lr=1e-2, alpha=0.95)
    for it in range(2):
        obs, actions, reward, done = rollout(it)
        with torch.no_grad():
            adv, returns = gae(reward, agent.value(obs), done)
            old_logp = agent.policy(obs[:-1]).log_prob(actions)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for epoch in range(2):
            dist = agent.policy(obs[:-1])
            ratio = (dist.log_prob(actions) - old_logp).exp()
            surrogate = torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv)
            pi_loss = -surrogate.mean() - 0.05 * dist.entropy().mean()
            v_loss = 0.5 * (agent.value(obs[:-1]) - returns).pow(2).mean()
            pi_opt.zero_grad()
            v_opt.zero_grad()
            (pi_loss + v_loss).backward()
            pi_opt.step()
            v_opt.step()
            print(f"iteration {it} epoch {epoch}: policy {pi_loss.item():.9f} value {v_loss.item():.9f}")


if __name__ == "__main__":
    main()
