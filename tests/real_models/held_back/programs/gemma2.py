"""Gemma 2: soft capped scores, every second layer sees a window only."""

import torch
import torch.nn.functional as F
from modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.gemma2.configuration_gemma2 import Gemma2Config

KEPT = ()


def build(attention):
    config = Gemma2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=8,
        max_position_embeddings=64,
        sliding_window=4,
        pad_token_id=0,
        attn_implementation=attention,
    )
    return Gemma2ForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(1200 + step)
    return {"input_ids": torch.randint(1, 64, (2, 12), generator=generator)}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
