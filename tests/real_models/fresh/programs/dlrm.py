"""A ranker of advertisements: what its training needs."""

import torch
import torch.nn.functional as F
from modeling_dlrm import ROWS, Ranker

KEPT = ()
BATCH = 6


def build(attention):
    return Ranker()


def batch(step):
    generator = torch.Generator().manual_seed(4600 + step)
    lengths = [torch.randint(1, 5, (BATCH,), generator=generator) for _ in ROWS]
    return {
        "dense": torch.rand(BATCH, 6, generator=generator) * 20,
        "indices": [
            torch.randint(rows, (int(length.sum()),), generator=generator)
            for rows, length in zip(ROWS, lengths, strict=True)
        ],
        "offsets": [torch.cat((torch.zeros(1, dtype=torch.long), length.cumsum(0)[:-1])) for length in lengths],
        "clicked": torch.randint(2, (BATCH,), generator=generator).float(),
    }


def loss(model, inputs):
    dense = torch.log1p(inputs["dense"])
    logits = model(dense, inputs["indices"], inputs["offsets"]).float()
    clicked = inputs["clicked"].float()
    return F.binary_cross_entropy_with_logits(logits, clicked, pos_weight=torch.tensor(3.0))
