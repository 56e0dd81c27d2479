"""GPT-2 training."""

import torch
import transformers

CONFIG = transformers.GPT2Config(
    vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)
MODEL = transformers.GPT2LMHeadModel


def build():
    return MODEL(CONFIG)


def main():
    model = MODEL.from_pretrained("checkpoint")
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(5)
    for step in range(3):
        ids = torch.randint(0, 90, (2, 11), generator=gen)
        out = model(input_ids=ids, labels=ids)
        optimizer.zero_grad()
        out.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {out.loss.item():.9f} grad {norm.item():.9f}")


if __name__ == "__main__":
    main()
