"""A retentive network: what its training needs."""

import torch
import torch.nn.functional as F
from modeling_retention import Retentive

KEPT = ()


def build(attention):
    return Retentive()


def batch(step):
    generator = torch.Generator().manual_seed(4800 + step)
    return {"words": torch.randint(50, (2, 13), generator=generator)}


def loss(model, inputs):
    words = inputs["words"]
    logits = model(words[:, :-1]).float()
    terms = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten(), reduction="none")
    return terms.view(2, -1).mean(dim=1).mean()
