"""Continuous control, modelled on cleanrl/td3_continuous_action.py of vwxyzjn/cleanrl.

Two critics learn from every batch, the actor from every second one; targets follow. An iteration is a batch.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x, a):
        return self.fc2(F.relu(self.fc1(torch.cat([x, a], 1))))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc_mu = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return torch.tanh(self.fc_mu(F.relu(self.fc1(x))))


actor, qf1, qf2 = Actor(), QNetwork(), QNetwork()
target_actor, qf1_target, qf2_target = copy.deepcopy(actor), copy.deepcopy(qf1), copy.deepcopy(qf2)
q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=3e-3)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
replay, seen = [], torch.randn(1, 3)
for global_step in range(14):
    with torch.no_grad():
        action = (actor(seen) + 0.1 * torch.randn(1, 1)).clamp(-1, 1)
    reward = -(seen[:, :1] - action).square()
    following = seen.roll(1, 1) + 0.1 * action
    replay.append((seen, action, reward, following))
    seen = following if global_step % 5 else torch.randn(1, 3)
    if global_step < 8:
        continue
    chosen = torch.randint(0, len(replay), (6,)).tolist()
    observations, actions, rewards, next_observations = (torch.cat(part) for part in zip(*(replay[i] for i in chosen)))
    with torch.no_grad():
        noise = (0.2 * torch.randn_like(actions)).clamp(-0.5, 0.5)
        next_actions = (target_actor(next_observations) + noise).clamp(-1, 1)
        target1, target2 = qf1_target(next_observations, next_actions), qf2_target(next_observations, next_actions)
        wanted = rewards + 0.99 * torch.min(target1, target2)
    qf_loss = F.mse_loss(qf1(observations, actions), wanted) + F.mse_loss(qf2(observations, actions), wanted)
    q_optimizer.zero_grad()
    qf_loss.backward()
    q_optimizer.step()
    print(qf_loss.item().hex())
    if global_step % 2 == 0:
        actor_loss = -qf1(observations, actor(observations)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        print("actor", actor_loss.item().hex())
        for network, target in ((actor, target_actor), (qf1, qf1_target), (qf2, qf2_target)):
            for parameter, follower in zip(network.parameters(), target.parameters()):
                follower.data.copy_(0.05 * parameter.data + 0.95 * follower.data)
