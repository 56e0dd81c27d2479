"""The other implementation of t5_encoder_own.py."""

import torch
from transformers import T5Config, T5EncoderModel


def build():
    return T5EncoderModel(
        T5Config(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=16,
            dropout_rate=0.0,
        )
    )


if __name__ == "__main__":
    enc = build().eval()
    enc.load_state_dict(torch.load("weights.pt"))
    gen = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for i in range(2):
            ids = torch.randint(1, 60, (2, 20), generator=gen)
            h = enc(ids).last_hidden_state
            print(f"{i} {h.mean():.9f} {h.std():.9f} {h[1, 3, 5]:.9f}")
