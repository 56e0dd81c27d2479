"""Phi: predicts the next token; attention and feed-forward of a layer read the same states."""

import torch
import torch.nn.functional as F
from modeling_phi import PhiForCausalLM
from transformers.models.phi.configuration_phi import PhiConfig

KEPT = ()


def build(attention):
    config = PhiConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        partial_rotary_factor=0.5,
        qk_layernorm=True,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation=attention,
    )
    return PhiForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(3000 + step)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    return {"input_ids": torch.randint(3, 64, (2, 12), generator=generator), "attention_mask": mask}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
