"""BLOOM with alibi."""

import torch
import transformers

CONFIG = transformers.BloomConfig(
    vocab_size=90, hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0
)
MODEL = transformers.BloomForCausalLM


def build():
    return MODEL(CONFIG)


def main():
    model = MODEL.from_pretrained("checkpoint")
    model.eval()
    gen = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for step in range(3):
            ids = torch.randint(0, 90, (2, 11), generator=gen)
            out = model(input_ids=ids, attention_mask=torch.ones_like(ids))
            y = out.logits
            print(f"step {step} mean {y.mean().item():.9f} std {y.std().item():.9f} last {y.flatten()[-1].item():.9f}")


if __name__ == "__main__":
    main()
