"""GPT-Neo with local attention."""

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM


def build():
    return GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=70,
            max_position_embeddings=32,
            hidden_size=32,
            num_layers=2,
            attention_types=[[["global", "local"], 1]],
            num_heads=4,
            window_size=4,
            resid_dropout=0.0,
            embed_dropout=0.0,
            attention_dropout=0.0,
        )
    )


if __name__ == "__main__":
    model = GPTNeoForCausalLM.from_pretrained("checkpoint")
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(24)
    for step in range(2):
        ids = torch.randint(0, 70, (2, 10), generator=gen)
        loss = model(input_ids=ids, labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")
