"""DistilBERT learns from a teacher: the divergence of two distributions, and a cross entropy."""

import torch
import torch.nn.functional as F
from modeling_distilbert import DistilBertForSequenceClassification
from transformers.models.distilbert.configuration_distilbert import DistilBertConfig

KEPT = ()
TEMPERATURE = 2.0


def build(attention):
    config = DistilBertConfig(
        vocab_size=64,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=32,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.1,
        num_labels=6,
        attn_implementation=attention,
    )
    return DistilBertForSequenceClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(1900 + step)
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[1, 9:] = 0
    return {
        "input_ids": torch.randint(1, 64, (3, 12), generator=generator),
        "attention_mask": mask,
        "teacher": torch.randn(3, 6, generator=generator),
        "labels": torch.randint(6, (3,), generator=generator),
    }


def loss(model, inputs):
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.float()
    taught = F.softmax(inputs["teacher"].float() / TEMPERATURE, dim=-1)
    learnt = F.log_softmax(logits / TEMPERATURE, dim=-1)
    distilled = F.kl_div(learnt, taught, reduction="batchmean") * TEMPERATURE**2
    return 0.7 * distilled + 0.3 * F.cross_entropy(logits, inputs["labels"])
