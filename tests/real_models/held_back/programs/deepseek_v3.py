"""DeepSeek V3: latent attention, and experts chosen by groups."""

import torch
import torch.nn.functional as F
from modeling_deepseek_v3 import DeepseekV3ForCausalLM
from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config

KEPT = ()


def build(attention):
    config = DeepseekV3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        first_k_dense_replace=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        n_group=4,
        topk_group=2,
        routed_scaling_factor=1.5,
        max_position_embeddings=32,
        attn_implementation=attention,
        experts_implementation="eager",
    )
    return DeepseekV3ForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(1300 + step)
    return {"input_ids": torch.randint(64, (2, 12), generator=generator)}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
