"""GPT-2: predicts the next token, with dropout."""

import torch
import torch.nn.functional as F
from modeling_gpt2 import GPT2LMHeadModel
from transformers.models.gpt2.configuration_gpt2 import GPT2Config

KEPT = ()


def build(attention):
    config = GPT2Config(
        vocab_size=64,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.1,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        attn_implementation=attention,
    )
    return GPT2LMHeadModel(config)


def batch(step):
    generator = torch.Generator().manual_seed(200 + step)
    return {"input_ids": torch.randint(64, (2, 12), generator=generator)}


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), inputs["input_ids"][:, 1:].flatten())
