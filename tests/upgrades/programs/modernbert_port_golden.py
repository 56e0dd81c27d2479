"""Masked language modelling with a small ModernBERT of transformers (local and global layers, padded batch)."""

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM


def build():
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=80,
        hidden_size=32,
        intermediate_size=40,
        num_hidden_layers=4,
        num_attention_heads=4,
        local_attention=6,
        global_attn_every_n_layers=3,
        global_rope_theta=160.0,
        local_rope_theta=10.0,
        initializer_range=0.2,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    )
    model = ModernBertForMaskedLM(config)
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(p, mean=1.0, std=0.2)
    return model


def masked_batch(step, batch=4, longest=18):
    g = torch.Generator().manual_seed(step)
    lengths = torch.tensor([longest, longest - 5, longest - 2, longest - 8])
    tokens = torch.randint(4, 80, (batch, longest), generator=g)
    attention = torch.arange(longest) < lengths[:, None]
    tokens = tokens.masked_fill(~attention, 0)
    chosen = (torch.rand(batch, longest, generator=g) < 0.3) & attention
    labels = tokens.masked_fill(~chosen, -100)
    return tokens.masked_fill(chosen, 3), attention.long(), labels


def main():
    model = ModernBertForMaskedLM.from_pretrained("checkpoint")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5)
    for step in range(3):
        tokens, attention, labels = masked_batch(step)
        loss = model(input_ids=tokens, attention_mask=attention, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
