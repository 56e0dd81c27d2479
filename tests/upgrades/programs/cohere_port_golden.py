"""Fine-tuning of a small Cohere (Command-R) model with transformers."""

import torch
from transformers import CohereConfig, CohereForCausalLM


def build():
    torch.manual_seed(0)
    config = CohereConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        logit_scale=0.25,
        use_qk_norm=True,
        initializer_range=0.15,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = CohereForCausalLM(config)
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(p, mean=1.0, std=0.2)
    return model


def main():
    model = CohereForCausalLM.from_pretrained("checkpoint")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, eps=1e-6)
    data = torch.Generator().manual_seed(1)
    for step in range(3):
        tokens = torch.randint(3, 96, (4, 14), generator=data)
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
