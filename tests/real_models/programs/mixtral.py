"""Mixtral: a mixture of experts that predicts the next token."""

import torch
import torch.nn.functional as F
from modeling_mixtral import MixtralForCausalLM
from transformers.models.mixtral.configuration_mixtral import MixtralConfig

KEPT = ()


def build(attention):
    config = MixtralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        num_local_experts=4,
        num_experts_per_tok=2,
        attn_implementation=attention,
        experts_implementation="eager",
    )
    return MixtralForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(100 + step)
    text = torch.randint(64, (2, 12), generator=generator)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    return {"input_ids": text, "attention_mask": mask}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
