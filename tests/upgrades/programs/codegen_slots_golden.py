"""Language modelling with a small CodeGen of transformers."""

import torch
from transformers import CodeGenConfig, CodeGenForCausalLM

VOCAB, LENGTH = 80, 14


def build():
    config = CodeGenConfig(
        vocab_size=VOCAB,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
        n_inner=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return CodeGenForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(900 + step)
    start = torch.randint(0, VOCAB, (6, 1), generator=generator)
    jump = torch.randint(1, 5, (6, 1), generator=generator)
    return (start + jump * torch.arange(LENGTH)) % VOCAB


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95))
    for step in range(3):
        ids = batch(step)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
