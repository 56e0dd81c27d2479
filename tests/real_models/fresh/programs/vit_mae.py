"""A masked auto-encoder: three quarters of the patches are hidden, and drawn again by a small decoder."""

import torch
from modeling_vit_mae import ViTMAEForPreTraining
from transformers.models.vit_mae.configuration_vit_mae import ViTMAEConfig

KEPT = ()


def build(attention):
    config = ViTMAEConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        decoder_hidden_size=16,
        decoder_intermediate_size=32,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2,
        mask_ratio=0.75,
        norm_pix_loss=True,
        attn_implementation=attention,
    )
    return ViTMAEForPreTraining(config)


def batch(step):
    generator = torch.Generator().manual_seed(4100 + step)
    return {
        "image": torch.randn(3, 3, 16, 16, generator=generator),
        "noise": torch.rand(3, 16, generator=generator),
    }


def loss(model, inputs):
    return model(pixel_values=inputs["image"], noise=inputs["noise"]).loss
