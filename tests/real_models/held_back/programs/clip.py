"""CLIP: two towers whose features of image and text shall agree."""

import torch
from modeling_clip import CLIPModel
from transformers.models.clip.configuration_clip import CLIPConfig

KEPT = ("logit_scale",)


def build(attention):
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": 64, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    config = CLIPConfig(
        text_config={**tower, **text},
        vision_config={**tower, "image_size": 16, "patch_size": 8},
        projection_dim=24,
        attn_implementation=attention,
    )
    return CLIPModel(config)


def batch(step):
    generator = torch.Generator().manual_seed(1500 + step)
    text = torch.randint(3, 60, (3, 10), generator=generator)
    text[:, 8] = 63
    mask = torch.ones(3, 10, dtype=torch.long)
    mask[:, 9:] = 0
    pixels = torch.randn(3, 3, 16, 16, generator=generator)
    return {"input_ids": text, "attention_mask": mask, "pixel_values": pixels}


def loss(model, inputs):
    return model(**inputs, return_loss=True).loss
