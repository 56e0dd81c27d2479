import torch
from transformers import BloomConfig, BloomForCausalLM


def build():
    torch.manual_seed(41)
    config = BloomConfig(
        vocab_size=61,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = BloomForCausalLM(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.add_(0.1 * torch.randn_like(p))
    return model


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    gen = torch.Generator().manual_seed(42)
    for step in range(3):
        tokens = torch.randint(3, 61, (3, 18), generator=gen)
        out = model(input_ids=tokens, labels=tokens)
        optimizer.zero_grad()
        out.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step}: loss {out.loss.item():.6f} grad norm {norm.item():.6f}")


if __name__ == "__main__":
    main()
