"""The other implementation of gpt2_own_vs_tf.py."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=80,
            n_positions=24,
            n_embd=32,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95)
    )
    gen = torch.Generator().manual_seed(1)
    for step in range(3):
        ids = torch.randint(0, 80, (2, 13), generator=gen)
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
