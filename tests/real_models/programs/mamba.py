"""Mamba: a state space model that predicts the next token."""

import torch
import torch.nn.functional as F
from modeling_mamba import MambaForCausalLM
from transformers.models.mamba.configuration_mamba import MambaConfig

KEPT = ("A_log", "D")


def build(attention):
    config = MambaConfig(
        vocab_size=64,
        hidden_size=32,
        state_size=4,
        num_hidden_layers=2,
        conv_kernel=4,
        expand=2,
        time_step_rank=4,
        tie_word_embeddings=False,
    )
    return MambaForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(600 + step)
    return {"input_ids": torch.randint(64, (2, 8), generator=generator)}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
