"""ALBERT: predicts masked tokens; one layer is called three times."""

import torch
import torch.nn.functional as F
from modeling_albert import AlbertForMaskedLM
from transformers.models.albert.configuration_albert import AlbertConfig

KEPT = ()


def build(attention):
    config = AlbertConfig(
        vocab_size=64,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )
    return AlbertForMaskedLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(3100 + step)
    text = torch.randint(5, 64, (2, 12), generator=generator)
    hidden = torch.rand(2, 12, generator=generator) < 0.3
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, 10:] = 0
    types = torch.zeros(2, 12, dtype=torch.long)
    types[:, 5:] = 1
    return {
        "input_ids": text.masked_fill(hidden, 4),
        "attention_mask": mask,
        "token_type_ids": types,
        "labels": text.masked_fill(~hidden, -100),
    }


def loss(model, inputs):
    given = dict(inputs)
    labels = given.pop("labels")
    logits = model(**given).logits
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)
