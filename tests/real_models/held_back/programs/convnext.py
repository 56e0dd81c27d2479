"""ConvNeXt names the class of an image."""

import torch
import torch.nn.functional as F
from modeling_convnext import ConvNextForImageClassification
from transformers.models.convnext.configuration_convnext import ConvNextConfig

KEPT = ()


def build(attention):
    config = ConvNextConfig(
        num_channels=3,
        patch_size=2,
        num_stages=2,
        hidden_sizes=[16, 32],
        depths=[2, 2],
        layer_scale_init_value=1.0,
        drop_path_rate=0.1,
        num_labels=8,
        image_size=16,
    )
    return ConvNextForImageClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(1800 + step)
    return {
        "pixel_values": torch.randn(3, 3, 16, 16, generator=generator),
        "labels": torch.randint(8, (3,), generator=generator),
    }


def loss(model, inputs):
    return F.cross_entropy(model(inputs["pixel_values"]).logits.float(), inputs["labels"])
