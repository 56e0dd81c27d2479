"""The other implementation of bert_vs_torch_encoder.py."""

import torch
from transformers import BertConfig, BertModel


def build():
    return BertModel(
        BertConfig(
            vocab_size=70,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=20,
            layer_norm_eps=1e-12,
        ),
        add_pooling_layer=False,
    )


if __name__ == "__main__":
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    net.eval()
    gen = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for i in range(3):
            ids = torch.randint(1, 70, (2, 9), generator=gen)
            keep = torch.ones(2, 9, dtype=torch.long)
            keep[0, 6:] = 0
            states = net(ids, attention_mask=keep).last_hidden_state
            valid = states[keep.bool()]
            print(f"batch {i} mean {valid.mean():.9f} abs {valid.abs().mean():.9f} cls {states[0, 0, 0]:.9f}")
