"""ViT: names the class of an image."""

import torch
import torch.nn.functional as F
from modeling_vit import ViTForImageClassification
from transformers.models.vit.configuration_vit import ViTConfig

KEPT = ()


def build(attention):
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        image_size=16,
        patch_size=4,
        num_channels=3,
        num_labels=8,
        attn_implementation=attention,
    )
    return ViTForImageClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(500 + step)
    return {
        "pixel_values": torch.randn(3, 3, 16, 16, generator=generator),
        "labels": torch.randint(8, (3,), generator=generator),
    }


def loss(model, inputs):
    logits = model(pixel_values=inputs["pixel_values"]).logits
    return F.cross_entropy(logits.float(), inputs["labels"])
