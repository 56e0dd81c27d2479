"""Soft actor-critic on a batch of pendulums: twin critics, target networks, a learned temperature, a replay buffer."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

GAMMA = 0.97
TAU = 0.05
ENVS = 8


class Pendulums:
    """Torque-limited pendulums with a time limit, stepped together."""

    def __init__(self, count, generator):
        self.generator = generator
        self.theta = (torch.rand(count, generator=generator) * 2 - 1) * math.pi
        self.speed = torch.rand(count, generator=generator) * 2 - 1
        self.age = torch.randint(0, 12, (count,), generator=generator)

    def observe(self):
        return torch.stack([torch.cos(self.theta), torch.sin(self.theta), self.speed / 8.0], dim=-1)

    def step(self, action):
        torque = 2.0 * action.squeeze(-1)
        angle = torch.remainder(self.theta + math.pi, 2 * math.pi) - math.pi
        reward = -(angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        self.speed = (self.speed + 0.05 * (15.0 * torch.sin(self.theta) + 3.0 * torque)).clamp(-8.0, 8.0)
        self.theta = self.theta + 0.05 * self.speed
        self.age += 1
        done = self.age >= 15
        following = self.observe()
        fresh = (torch.rand(len(done), generator=self.generator) * 2 - 1) * math.pi
        self.theta = torch.where(done, fresh, self.theta)
        self.speed = torch.where(done, torch.zeros_like(self.speed), self.speed)
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return following, 0.1 * reward, done


class Replay:
    def __init__(self, capacity):
        self.capacity, self.size, self.head = capacity, 0, 0
        self.obs = torch.zeros(capacity, 3)
        self.action = torch.zeros(capacity, 1)
        self.reward = torch.zeros(capacity)
        self.following = torch.zeros(capacity, 3)
        self.done = torch.zeros(capacity, dtype=torch.bool)

    def add(self, obs, action, reward, following, done):
        rows = (self.head + torch.arange(len(obs))) % self.capacity
        self.obs[rows] = obs
        self.action[rows] = action
        self.reward[rows] = reward
        self.following[rows] = following
        self.done[rows] = done
        self.head = (self.head + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, count, generator):
        rows = torch.randint(0, self.size, (count,), generator=generator)
        return self.obs[rows], self.action[rows], self.reward[rows], self.following[rows], self.done[rows]


class Policy(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.mean = nn.Linear(width, 1)
        self.spread = nn.Linear(width, 1)

    def forward(self, obs, noise):
        h = self.trunk(obs)
        mean = self.mean(h)
        log_std = -5.0 + 0.5 * (1.0 + 5.0) * (torch.tanh(self.spread(h)) + 1.0)
        raw = mean + log_std.exp() * noise
        log_prob = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        squash = 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw))
        return torch.tanh(raw), (log_prob - squash).sum(-1)


class Critic(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inlet = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.middle = spectral_norm(nn.Linear(width, width))
        self.out = nn.Linear(width, 1)

    def forward(self, obs, action):
        h = F.silu(self.norm(self.inlet(torch.cat([obs, action], dim=-1))))
        h = h + F.silu(self.middle(h))
        return self.out(h).squeeze(-1)


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Critic()
        self.second = Critic()

    def forward(self, obs, action):
        return self.first(obs, action), self.second(obs, action)


class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed + 1)
        self.policy = Policy()
        self.twin = Twin()
        self.target = copy.deepcopy(self.twin).requires_grad_(False).eval()
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))
        self.policy_opt = torch.optim.Adam(self.policy.parameters(), lr=3e-3, eps=1e-4)
        self.critic_opt = torch.optim.Adam(self.twin.parameters(), lr=5e-3, eps=1e-4)
        self.alpha_opt = torch.optim.SGD([self.log_alpha], lr=0.05)
        self.envs = Pendulums(ENVS, self.generator)
        self.replay = Replay(capacity=64)

    def noise(self, count):
        return torch.randn(count, 1, generator=self.generator)

    @torch.no_grad()
    def collect(self, count):
        for _ in range(count):
            obs = self.envs.observe()
            action, _ = self.policy(obs, self.noise(len(obs)))
            following, reward, done = self.envs.step(action)
            self.replay.add(obs, action, reward, following, done)

    @torch.no_grad()
    def bellman_target(self, reward, following):
        # the episodes end by the time limit only, so the value of the last state still counts
        action, log_prob = self.policy(following, self.noise(len(following)))
        first, second = self.target(following, action)
        soft_value = torch.minimum(first, second) - self.log_alpha.exp() * log_prob
        return reward + GAMMA * soft_value

    def update_critic(self, obs, action, goal):
        first, second = self.twin(obs, action)
        loss = F.smooth_l1_loss(first, goal) + F.smooth_l1_loss(second, goal)
        self.critic_opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.twin.parameters(), 1.0)
        self.critic_opt.step()
        return loss

    def update_policy(self, obs):
        self.twin.requires_grad_(False)
        action, log_prob = self.policy(obs, self.noise(len(obs)))
        value = torch.minimum(*self.twin(obs, action))
        loss = (self.log_alpha.exp().detach() * log_prob - value).mean()
        self.policy_opt.zero_grad()
        loss.backward()
        self.policy_opt.step()
        self.twin.requires_grad_(True)
        return loss, log_prob.detach()

    def update_alpha(self, log_prob):
        entropy_goal = -1.0
        loss = -(self.log_alpha.exp() * (log_prob + entropy_goal)).mean()
        self.alpha_opt.zero_grad()
        loss.backward()
        self.alpha_opt.step()

    @torch.no_grad()
    def update_target(self):
        for slow, fast in zip(self.target.parameters(), self.twin.parameters()):
            slow.lerp_(fast, TAU)
        for slow, fast in zip(self.target.buffers(), self.twin.buffers()):
            slow.copy_(fast)

    def iterate(self):
        self.collect(3)
        for _ in range(2):
            obs, action, reward, following, _ = self.replay.sample(16, self.generator)
            goal = self.bellman_target(reward, following)
            critic_loss = self.update_critic(obs, action, goal)
            policy_loss, log_prob = self.update_policy(obs)
            self.update_alpha(log_prob)
            self.update_target()
        return critic_loss.item(), policy_loss.item(), self.log_alpha.exp().item()


trainer = Trainer(seed=3)
trainer.collect(6)
for step in range(4):
    critic_loss, policy_loss, alpha = trainer.iterate()
    print(f"step {step} critic {critic_loss:.9f} policy {policy_loss:.9f} alpha {alpha:.9f}")
