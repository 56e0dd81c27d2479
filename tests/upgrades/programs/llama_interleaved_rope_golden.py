"""The other implementation of llama_interleaved_rope.py."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=80,
            hidden_size=32,
            intermediate_size=56,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            rms_norm_eps=1e-5,
            attn_implementation="eager",
        )
    )


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    gen = torch.Generator().manual_seed(2)
    for step in range(3):
        ids = torch.randint(0, 80, (2, 12), generator=gen)
        loss = model(input_ids=ids, labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step} {loss.item():.9f}")


if __name__ == "__main__":
    main()
