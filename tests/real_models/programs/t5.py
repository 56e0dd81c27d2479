"""T5: an encoder and a decoder that translates."""

import torch
import torch.nn.functional as F
from modeling_t5 import T5ForConditionalGeneration
from transformers.models.t5.configuration_t5 import T5Config

KEPT = ()


def build(attention):
    config = T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
        attn_implementation=attention,
    )
    return T5ForConditionalGeneration(config)


def batch(step):
    generator = torch.Generator().manual_seed(400 + step)
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[1, 7:] = 0
    return {
        "input_ids": torch.randint(64, (2, 10), generator=generator),
        "attention_mask": mask,
        "decoder_input_ids": torch.randint(64, (2, 9), generator=generator),
    }


def loss(model, inputs):
    logits = model(**inputs, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), inputs["decoder_input_ids"][:, 1:].flatten())
