"""Swin: attention in shifted windows names the class of an image."""

import torch
import torch.nn.functional as F
from modeling_swin import SwinForImageClassification
from transformers.models.swin.configuration_swin import SwinConfig

KEPT = ()


def build(attention):
    config = SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
        num_labels=8,
        attn_implementation=attention,
    )
    return SwinForImageClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(1700 + step)
    return {
        "pixel_values": torch.randn(3, 3, 32, 32, generator=generator),
        "labels": torch.randint(8, (3,), generator=generator),
    }


def loss(model, inputs):
    logits = model(pixel_values=inputs["pixel_values"]).logits
    return F.cross_entropy(logits.float(), inputs["labels"], label_smoothing=0.1)
