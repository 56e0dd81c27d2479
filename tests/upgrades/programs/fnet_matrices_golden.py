"""Sentence pairs classified by a small FNet of transformers."""

import torch
from transformers import FNetConfig, FNetForSequenceClassification

LENGTH, WIDTH = 16, 24


def build():
    config = FNetConfig(
        vocab_size=90,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        intermediate_size=48,
        hidden_dropout_prob=0.0,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        num_labels=3,
    )
    return FNetForSequenceClassification(config)


def batch(step):
    generator = torch.Generator().manual_seed(70 + step)
    ids = torch.randint(5, 90, (12, LENGTH), generator=generator)
    types = (torch.arange(LENGTH) >= LENGTH // 2).long().expand(12, -1)
    labels = (ids[:, 0] + ids[:, LENGTH // 2]) % 3
    return ids, types, labels


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(3):
        ids, types, labels = batch(step)
        loss = model(input_ids=ids, token_type_ids=types, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
