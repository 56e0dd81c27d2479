"""BERT: predicts masked tokens."""

import torch
import torch.nn.functional as F
from modeling_bert import BertForMaskedLM
from transformers.models.bert.configuration_bert import BertConfig

KEPT = ()


def build(attention):
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        tie_word_embeddings=False,
        attn_implementation=attention,
    )
    return BertForMaskedLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(300 + step)
    text = torch.randint(4, 64, (2, 12), generator=generator)
    hidden = torch.rand(2, 12, generator=generator) < 0.3
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    types = torch.zeros(2, 12, dtype=torch.long)
    types[:, 6:] = 1
    return {
        "input_ids": text.masked_fill(hidden, 3),
        "attention_mask": mask,
        "token_type_ids": types,
        "labels": text.masked_fill(~hidden, -100),
    }


def loss(model, inputs):
    given = dict(inputs)
    labels = given.pop("labels")
    logits = model(**given).logits
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)
