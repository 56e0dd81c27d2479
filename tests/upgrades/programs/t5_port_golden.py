import torch
from transformers import T5Config, T5ForConditionalGeneration


def build():
    config = T5Config(
        vocab_size=40,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def make_batch(step):
    g = torch.Generator().manual_seed(900 + step)
    source = torch.randint(2, 40, (4, 14), generator=g)
    mask = (torch.arange(14) < torch.tensor([14, 9, 12, 6])[:, None]).long()
    labels = torch.randint(2, 40, (4, 8), generator=g)
    labels[1, 5:] = -100
    labels[3, 6:] = -100
    return source * mask, mask, labels


def fine_tune(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    model.train()
    for step in range(steps):
        source, mask, labels = make_batch(step)
        out = model(input_ids=source, attention_mask=mask, labels=labels)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {out.loss.item():.9f}")


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    fine_tune(model)
    model.eval()
    source, mask, _ = make_batch(50)
    with torch.no_grad():
        encoded = model.encoder(input_ids=source, attention_mask=mask).last_hidden_state
    print(f"encoder rms {(encoded[0] ** 2).mean().sqrt().item():.9f} first {encoded[0, 0, 0].item():.9f}")


if __name__ == "__main__":
    main()
