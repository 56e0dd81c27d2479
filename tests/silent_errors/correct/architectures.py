"""Tiny models of transformers, trained three steps with AdamW, a schedule and clipping, in several number formats."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
import transformers as hf
from torch import Tensor, nn

from tests.silent_errors.frame import debugger, options

STEPS, BATCH, LENGTH, WORDS = 3, 4, 10, 64
SMALL = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**SMALL, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 32}
ENCODER = {**SMALL, "intermediate_size": 48, "max_position_embeddings": 32}


def causal(config: hf.PretrainedConfig) -> Callable[[], nn.Module]:
    return lambda: hf.AutoModelForCausalLM.from_config(config)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "gpt2": causal(hf.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32)),
    "llama": causal(hf.LlamaConfig(**DECODER)),
    "mistral": causal(hf.MistralConfig(**DECODER, sliding_window=4)),
    "mixtral": causal(hf.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2)),
    "gemma2": causal(hf.Gemma2Config(**DECODER, head_dim=8)),
    "opt": causal(
        hf.OPTConfig(
            vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48,
            max_position_embeddings=32, word_embed_proj_dim=32,
        )
    ),
    "falcon": causal(hf.FalconConfig(**SMALL, new_decoder_architecture=False)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**ENCODER)),
    "electra": lambda: hf.ElectraForSequenceClassification(hf.ElectraConfig(**ENCODER, embedding_size=16,
    num_labels=3)),
    "distilbert": lambda: hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=48, num_labels=3)
    ),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
    "vit": lambda: hf.ViTForImageClassification(
        hf.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16,
            patch_size=4, num_labels=5,
        )
    ),
    "resnet": lambda: hf.ResNetForImageClassification(
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5)
    ),
}  # fmt: skip
FORMATS = {"llama": "bf16", "falcon": "bf16", "bert": "autocast", "vit": "autocast", "gemma2": "autocast"}
"""What is not listed trains in float32."""


def batch(name: str) -> dict[str, Tensor]:
    """Return inputs with labels, some sentences padded."""
    if name in {"vit", "resnet"}:
        return {"pixel_values": torch.randn(BATCH, 3, 16, 16), "labels": torch.randint(0, 5, (BATCH,))}
    tokens = torch.randint(3, WORDS, (BATCH, LENGTH))
    mask = torch.ones_like(tokens)
    mask[0, -3:] = 0
    if name in {"electra", "distilbert"}:
        return {"input_ids": tokens, "attention_mask": mask, "labels": torch.randint(0, 3, (BATCH,))}
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}


def main() -> None:
    given = options()
    format = FORMATS.get(given.name, "fp32")
    model = MODELS[given.name]().train()
    if format == "bf16":
        model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = hf.get_cosine_schedule_with_warmup(optimizer, 1, 6)
    probe = debugger(given)
    for _ in range(STEPS):
        inputs = batch(given.name)
        if format == "bf16" and "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].bfloat16()
        probe.start(model)
        with torch.autocast("cpu", torch.bfloat16) if format == "autocast" else nullcontext():
            loss = model(**inputs).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
