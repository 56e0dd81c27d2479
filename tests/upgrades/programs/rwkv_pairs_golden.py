"""Language modelling with a small RWKV of transformers."""

import torch
from transformers import RwkvConfig, RwkvForCausalLM

VOCAB, LENGTH = 60, 12


def build():
    config = RwkvConfig(
        vocab_size=VOCAB,
        context_length=32,
        hidden_size=24,
        attention_hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        rescale_every=0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return RwkvForCausalLM(config)


def batch(step):
    generator = torch.Generator().manual_seed(600 + step)
    half = torch.randint(0, VOCAB, (8, LENGTH // 2), generator=generator)
    return torch.cat([half, half], dim=1)


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(3):
        ids = batch(step)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
