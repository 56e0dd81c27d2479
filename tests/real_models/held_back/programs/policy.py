"""A policy gradient with clipping: rewards, advantages and the loss."""

import torch
from modeling_policy import ActorCritic

KEPT = ()
GAMMA = 0.95
LAMBDA = 0.9
LENGTH = 6


def build(attention):
    return ActorCritic()


def batch(step):
    generator = torch.Generator().manual_seed(2600 + step)
    return {
        "state": torch.randn(5, 4, generator=generator),
        "push": torch.randn(3, 4, generator=generator) * 0.3,
        "draw": torch.rand(LENGTH, 5, generator=generator),
    }


@torch.no_grad()
def rollout(model, inputs):
    state, states, actions, rewards, log_probs, values = inputs["state"], [], [], [], [], []
    for time in range(LENGTH):
        log_prob, value = model(state)
        action = (log_prob.exp().cumsum(dim=-1) < inputs["draw"][time][:, None]).sum(dim=-1).clamp(max=2)
        states.append(state)
        actions.append(action)
        values.append(value)
        log_probs.append(log_prob.gather(1, action[:, None]).squeeze(1))
        state = 0.9 * state + inputs["push"][action]
        rewards.append(-state.pow(2).mean(dim=1))
    values.append(model(state)[1])
    return states, actions, rewards, log_probs, values


def advantages(rewards, values):
    found, last = [], torch.zeros_like(rewards[0])
    for time in reversed(range(LENGTH)):
        delta = rewards[time] + GAMMA * values[time + 1] - values[time]
        last = delta + GAMMA * LAMBDA * last
        found.append(last)
    return torch.stack(found[::-1])


def loss(model, inputs):
    states, actions, rewards, log_probs, values = rollout(model, inputs)
    advantage = advantages(rewards, values)
    returns = (advantage + torch.stack(values[:-1])).flatten()
    advantage = advantage.flatten()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_prob, value = model(torch.stack(states).flatten(0, 1))
    chosen = log_prob.gather(1, torch.stack(actions).flatten()[:, None]).squeeze(1)
    ratio = torch.exp(chosen - torch.stack(log_probs).flatten() + 0.1 * torch.sign(advantage))
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.95, 1.05) * advantage).mean()
    entropy = -(log_prob.exp() * log_prob).sum(dim=-1).mean()
    value_loss = 0.5 * (value - returns).pow(2).mean()
    return -surrogate + 0.5 * value_loss - 0.01 * entropy
