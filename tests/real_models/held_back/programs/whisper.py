"""Whisper: an encoder of sound, a decoder of text."""

import torch
import torch.nn.functional as F
from modeling_whisper import WhisperForConditionalGeneration
from transformers.models.whisper.configuration_whisper import WhisperConfig

KEPT = ()


def build(attention):
    config = WhisperConfig(
        vocab_size=64,
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=12,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        dropout=0.1,
        attn_implementation=attention,
    )
    return WhisperForConditionalGeneration(config)


def batch(step):
    generator = torch.Generator().manual_seed(1400 + step)
    labels = torch.randint(3, 64, (2, 8), generator=generator)
    labels[1, 6:] = -100
    return {"input_features": torch.randn(2, 8, 24, generator=generator), "labels": labels}


def loss(model, inputs):
    labels = inputs["labels"]
    before = F.pad(labels[:, :-1], (1, 0), value=1).masked_fill(labels == -100, 0)
    logits = model(input_features=inputs["input_features"], decoder_input_ids=before, use_cache=False).logits
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)
