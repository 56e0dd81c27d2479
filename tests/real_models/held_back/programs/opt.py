"""OPT: predicts the next token; head and embedding share their weight."""

import torch
import torch.nn.functional as F
from modeling_opt import OPTForCausalLM
from transformers.models.opt.configuration_opt import OPTConfig

KEPT = ()


def build(attention):
    config = OPTConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        ffn_dim=64,
        num_attention_heads=4,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        dropout=0.1,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=2,
        attn_implementation=attention,
    )
    return OPTForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(2000 + step)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :3] = 0
    return {"input_ids": torch.randint(3, 64, (2, 12), generator=generator), "attention_mask": mask}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
