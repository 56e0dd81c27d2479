"""An actor with a critic, modelled on reinforcement_learning/actor_critic.py of pytorch/examples.

An iteration is an episode: actions until the pole falls, then one update from all of them.
"""

import random

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

torch.manual_seed(0)
random.seed(0)


class Pole:
    """A pole that falls unless it is pushed against its lean."""

    def reset(self):
        self.lean, self.speed = random.uniform(-0.1, 0.1), 0.0
        return [self.lean, self.speed]

    def step(self, action):
        self.speed += 0.3 * self.lean + (0.1 if action else -0.1)
        self.lean += self.speed
        return [self.lean, self.speed], 1.0, abs(self.lean) > 0.6


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(2, 8)
        self.action_head = nn.Linear(8, 2)
        self.value_head = nn.Linear(8, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model, pole = Policy(), Pole()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)


def select_action(state):
    probabilities, value = model(torch.tensor(state))
    distribution = Categorical(probabilities)
    action = distribution.sample()
    model.saved_actions.append((distribution.log_prob(action), value))
    return action.item()


def finish_episode():
    value_of_rest, returns = 0.0, []
    for reward in reversed(model.rewards):
        value_of_rest = reward + 0.99 * value_of_rest
        returns.insert(0, value_of_rest)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-7)
    policy_losses, value_losses = [], []
    for (log_probability, value), target in zip(model.saved_actions, returns):
        advantage = target - value.item()
        policy_losses.append(-log_probability * advantage)
        value_losses.append(F.smooth_l1_loss(value, target.view(1)))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:], model.saved_actions[:]
    return loss.item()


for _episode in range(3):
    state, over = pole.reset(), False
    while not over and len(model.rewards) < 12:
        state, reward, over = pole.step(select_action(state))
        model.rewards.append(reward)
    print(finish_episode().hex())
