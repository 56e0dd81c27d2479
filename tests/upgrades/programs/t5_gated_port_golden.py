import torch
from transformers import T5Config, T5ForConditionalGeneration

PAD = 0
EOS = 1


def build():
    torch.manual_seed(61)
    config = T5Config(
        vocab_size=50,
        d_model=32,
        d_kv=12,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=32,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
    )
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "relative_attention_bias" in name:
                p.copy_(torch.randn_like(p))
            elif "layer_norm" in name:
                p.add_(0.1 * torch.randn_like(p))
            elif "DenseReluDense" in name:
                p.mul_(1.5)
    return model


def batches(count):
    """Toy translation: the output is the reversed input, shifted by one symbol."""
    gen = torch.Generator().manual_seed(62)
    for _ in range(count):
        source = torch.full((4, 22), PAD)
        labels = torch.full((4, 22), -100)
        for i in range(4):
            n = int(torch.randint(12, 22, (1,), generator=gen))
            words = torch.randint(2, 49, (n,), generator=gen)
            source[i, :n] = words
            labels[i, :n] = words.flip(0) + 1
        yield source, labels


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (source, labels) in enumerate(batches(3)):
        mask = source.ne(PAD).long()
        out = model(input_ids=source, attention_mask=mask, labels=labels)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        print("step", step, "loss", out.loss.item())


if __name__ == "__main__":
    main()
