"""A training of three steps."""

import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, N_ACT, GAMMA, N_STEP, SYNC = 6, 4, 0.95, 3, 2
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class GridWorld:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.pos = [self.rng.randrange(SIZE), self.rng.randrange(SIZE)]
        self.goal = [self.rng.randrange(SIZE), self.rng.randrange(SIZE)]
        self.t = 0
        return self.observe()

    def observe(self):
        grid = torch.zeros(2, SIZE, SIZE)
        grid[0, self.pos[0], self.pos[1]] = 1.0
        grid[1, self.goal[0], self.goal[1]] = 1.0
        return grid

    def step(self, action):
        self.t += 1
        self.pos = [min(SIZE - 1, max(0, p + d)) for p, d in zip(self.pos, MOVES[action])]
        reached = self.pos == self.goal
        reward = 1.0 if reached else -0.05 * sum(abs(p - g) for p, g in zip(self.pos, self.goal))
        return self.observe(), reward, reached or self.t >= 12


class DuelingHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 1))
        self.advantage = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, N_ACT))

    def forward(self, h):
        v, a = self.value(h), self.advantage(h)
        return v + a - a.mean(dim=1, keepdim=True)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.head = DuelingHead(12 * 9)

    def forward(self, obs):
        h = F.relu(self.conv1(obs))
        h = F.relu(self.conv2(h))
        return self.head(h.flatten(1))


def collect(env, policy_rng, episodes):
    memory = []
    for _ in range(episodes):
        obs, done, traj = env.reset(), False, []
        while not done:
            action = policy_rng.randrange(N_ACT)
            nxt, reward, done = env.step(action)
            traj.append((obs, action, reward, nxt, done))
            obs = nxt
        for i in range(len(traj)):
            chunk = traj[i : i + N_STEP]
            ret = sum(GAMMA**k * tr[2] for k, tr in enumerate(chunk))
            memory.append((chunk[0][0], chunk[0][1], ret, chunk[-1][3], float(chunk[-1][4]), GAMMA ** len(chunk)))
    return memory


torch.manual_seed(8)
online = QNet()
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.RMSprop(online.parameters(), lr=1e-3, alpha=0.95, eps=1e-2, centered=True)
memory = collect(GridWorld(4), random.Random(17), 12)
priority = torch.ones(len(memory))
sampler = torch.Generator().manual_seed(29)

for step in range(3):
    prob = priority**0.6 / (priority**0.6).sum()
    idx = torch.multinomial(prob, 32, replacement=True, generator=sampler)
    obs, act, ret, nxt, done, disc = zip(*[memory[i] for i in idx.tolist()])
    obs, nxt, act = torch.stack(obs), torch.stack(nxt), torch.tensor(act)
    ret, done, disc = torch.tensor(ret), torch.tensor(done), torch.tensor(disc)
    with torch.no_grad():
        best = online(nxt).argmax(dim=1)
        boot = target(nxt).gather(1, best[:, None]).squeeze(1)
        goal = ret + disc * (1.0 - done) * boot
    q = online(obs).gather(1, act[:, None]).squeeze(1)
    is_weight = (len(memory) * prob[idx]) ** -0.4
    is_weight = is_weight / is_weight.max()
    loss = (is_weight * F.smooth_l1_loss(q, goal, reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(online.parameters(), 0.05)
    optimizer.step()
    priority[idx] = (goal - q.detach()).abs() + 0.01
    if (step + 1) % SYNC == 0:
        target.load_state_dict(online.state_dict())
    print(f"step {step} loss {loss.item():.9f}")
