"""BART: mends sentences, norms behind the residuals, labels smoothed."""

import torch
import torch.nn.functional as F
from modeling_bart import BartForConditionalGeneration
from transformers.models.bart.configuration_bart import BartConfig

KEPT = ()


def build(attention):
    config = BartConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        attn_implementation=attention,
    )
    return BartForConditionalGeneration(config)


def batch(step):
    generator = torch.Generator().manual_seed(4300 + step)
    words = torch.randint(3, 64, (2, 11), generator=generator)
    labels = torch.randint(3, 64, (2, 9), generator=generator)
    words[1, 8:] = 0
    labels[0, 7:] = -100
    return {"words": words, "labels": labels}


def loss(model, inputs):
    labels = inputs["labels"]
    words = F.pad(labels[:, :-1].masked_fill(labels[:, :-1] == -100, 0), (1, 0), value=2)
    mask = (inputs["words"] != 0).long()
    given = {"input_ids": inputs["words"], "attention_mask": mask, "decoder_input_ids": words}
    logits = model(**given, use_cache=False).logits.float()
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.1)
