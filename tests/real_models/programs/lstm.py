"""A bidirectional LSTM with attention over time: names the class of a sentence."""

import torch
import torch.nn.functional as F
from modeling_lstm import Tagger

KEPT = ()


def build(attention):
    return Tagger(vocabulary=64, width=16, hidden=16, classes=8)


def batch(step):
    generator = torch.Generator().manual_seed(800 + step)
    return {
        "text": torch.randint(1, 64, (3, 10), generator=generator),
        "lengths": torch.tensor([10, 7, 5]),
        "labels": torch.randint(8, (3,), generator=generator),
    }


def loss(model, inputs):
    logits = model(inputs["text"], inputs["lengths"])
    return F.cross_entropy(logits.float(), inputs["labels"])
