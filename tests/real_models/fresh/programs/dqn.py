"""Learning of values: the error against the slow network, weighed by how probable a sample was."""

import torch
import torch.nn.functional as F
from modeling_dqn import Agent

KEPT = ()
DISCOUNT = 0.97


def build(attention):
    return Agent()


def batch(step):
    generator = torch.Generator().manual_seed(4900 + step)
    return {
        "state": torch.randn(8, 6, generator=generator),
        "action": torch.randint(4, (8,), generator=generator),
        "reward": 2 * torch.randn(8, generator=generator),
        "after": torch.randn(8, 6, generator=generator),
        "done": (torch.rand(8, generator=generator) < 0.3).float(),
        "chance": torch.rand(8, generator=generator) + 0.1,
    }


def wanted(model, inputs):
    with torch.no_grad():
        best = model.online(inputs["after"]).argmax(dim=1, keepdim=True)
        later = model.slow(inputs["after"]).gather(1, best).squeeze(1)
        return inputs["reward"] + DISCOUNT * (1 - inputs["done"]) * later


def loss(model, inputs):
    values = model.online(inputs["state"]).gather(1, inputs["action"][:, None]).squeeze(1)
    target = wanted(model, inputs)
    weight = (inputs["chance"] * len(values)) ** -0.5
    weight = weight / weight.max()
    return (weight * F.smooth_l1_loss(values, target, reduction="none")).mean()
