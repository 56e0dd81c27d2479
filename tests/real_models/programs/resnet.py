"""A residual network with batch norms: names the class of an image."""

import torch
import torch.nn.functional as F
from modeling_resnet import ResNet

KEPT = ()


def build(attention):
    return ResNet(channels=8, classes=8)


def batch(step):
    generator = torch.Generator().manual_seed(700 + step)
    return {
        "image": torch.randn(4, 3, 16, 16, generator=generator),
        "labels": torch.randint(8, (4,), generator=generator),
    }


def loss(model, inputs):
    return F.cross_entropy(model(inputs["image"]).float(), inputs["labels"], label_smoothing=0.1)
