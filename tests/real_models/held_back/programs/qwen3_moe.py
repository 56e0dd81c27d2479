"""Qwen3-MoE: predicts the next token; its own balancing loss is a part of the loss."""

import torch
from modeling_qwen3_moe import Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig

KEPT = ()


def build(attention):
    config = Qwen3MoeConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=32,
        num_experts=4,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        output_router_logits=True,
        router_aux_loss_coef=0.1,
        attn_implementation=attention,
        experts_implementation="eager",
    )
    return Qwen3MoeForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(1100 + step)
    text = torch.randint(64, (2, 12), generator=generator)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, 10:] = 0
    return {"input_ids": text, "attention_mask": mask}


def loss(model, inputs):
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    return model(**inputs, labels=labels, use_cache=False).loss
