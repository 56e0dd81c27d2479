"""Proximal policy optimization, modelled on cleanrl/ppo.py of vwxyzjn/cleanrl.

The agent is never called: its methods call ``actor`` and ``critic``. An iteration is the update from a minibatch.
"""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
STEPS, ENVIRONMENTS, CLIP = 8, 2, 0.2


def layer(inputs, outputs, deviation=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, deviation)
    nn.init.constant_(linear.bias, 0.0)
    return linear


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer(3, 8), nn.Tanh(), layer(8, 1, 1.0))
        self.actor = nn.Sequential(layer(3, 8), nn.Tanh(), layer(8, 2, 0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        distribution = Categorical(logits=self.actor(x))
        action = distribution.sample() if action is None else action
        return action, distribution.log_prob(action), distribution.entropy(), self.critic(x)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
seen = torch.randn(ENVIRONMENTS, 3)
for _iteration in range(2):
    rollout = []
    for _ in range(STEPS):
        with torch.no_grad():
            action, log_probability, _, value = agent.get_action_and_value(seen)
        reward = (action == (seen[:, 0] > 0)).float()
        rollout.append((seen, action, log_probability, reward, value.flatten()))
        seen = seen.roll(1, 1) + 0.1 * torch.randn(ENVIRONMENTS, 3)
    observations, actions, log_probabilities, rewards, values = (torch.stack(part) for part in zip(*rollout))
    with torch.no_grad():
        following = agent.get_value(seen).reshape(1, -1)
        advantages = rewards + 0.99 * torch.cat([values[1:], following]) - values
        returns = advantages + values
    observations, actions = observations.reshape(-1, 3), actions.reshape(-1)
    log_probabilities, advantages, returns = log_probabilities.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
    for _epoch in range(2):
        for batch in torch.randperm(STEPS * ENVIRONMENTS).split(8):
            _, new, entropy, value = agent.get_action_and_value(observations[batch], actions[batch])
            ratio = (new - log_probabilities[batch]).exp()
            advantage = advantages[batch]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value_loss = 0.5 * (value.view(-1) - returns[batch]).square().mean()
            loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            print(loss.item().hex())
