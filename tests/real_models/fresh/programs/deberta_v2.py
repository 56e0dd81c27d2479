"""DeBERTa: scores of content and of relative positions, a convolution beside the first layer; a tag per word."""

import torch
import torch.nn.functional as F
from modeling_deberta_v2 import DebertaV2ForTokenClassification
from transformers.models.deberta_v2.configuration_deberta_v2 import DebertaV2Config

KEPT = ()


def build(attention):
    config = DebertaV2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["c2p", "p2c"],
        norm_rel_ebd="layer_norm",
        share_att_key=False,
        position_biased_input=False,
        type_vocab_size=0,
        conv_kernel_size=3,
        conv_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=5,
    )
    return DebertaV2ForTokenClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(4000 + step)
    words = torch.randint(3, 64, (3, 14), generator=generator)
    mask = torch.ones(3, 14, dtype=torch.long)
    mask[1, 11:] = 0
    mask[2, 8:] = 0
    tags = torch.randint(5, (3, 14), generator=generator).masked_fill(mask == 0, -100)
    return {"input_ids": words * mask, "attention_mask": mask, "tags": tags}


def loss(model, inputs):
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.float()
    return F.cross_entropy(logits.flatten(0, 1), inputs["tags"].flatten(), ignore_index=-100)
