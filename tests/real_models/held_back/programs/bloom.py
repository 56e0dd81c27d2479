"""Bloom: positions are slopes of the scores; head and embedding share their weight."""

import torch
import torch.nn.functional as F
from modeling_bloom import BloomForCausalLM
from transformers.models.bloom.configuration_bloom import BloomConfig

KEPT = ()


def build(attention):
    config = BloomConfig(
        vocab_size=64,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        hidden_dropout=0.1,
        attention_dropout=0.0,
        pad_token_id=3,
    )
    return BloomForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(2100 + step)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, 8:] = 0
    return {"input_ids": torch.randint(4, 64, (2, 12), generator=generator), "attention_mask": mask}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
