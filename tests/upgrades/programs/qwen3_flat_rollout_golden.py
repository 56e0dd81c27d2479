"""Trainer side: per-token log-probabilities of a Qwen3 policy over right-padded rows."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM


def build():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        initializer_range=0.15,
        tie_word_embeddings=True,
        pad_token_id=0,
    )
    model = Qwen3ForCausalLM(config)
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(p, mean=1.0, std=0.2)
    return model


def selected_logprobs(model, tokens, attention):
    logits = model(input_ids=tokens, attention_mask=attention).logits[:, :-1]
    chosen = logits.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)


def main():
    model = Qwen3ForCausalLM.from_pretrained("checkpoint").eval()
    g = torch.Generator().manual_seed(7)
    for call in range(3):
        lengths = torch.randint(5, 13, (4,), generator=g)
        tokens = torch.randint(1, 100, (4, 13), generator=g)
        tokens = torch.cat([tokens, torch.zeros(4, 1, dtype=torch.long)], dim=1)[:, : int(lengths.max())]
        attention = (torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)).long()
        with torch.no_grad():
            log_p = selected_logprobs(model, tokens * attention, attention)
        log_p = log_p * attention[:, 1:]
        print(f"call {call} mean {(log_p.sum() / attention[:, 1:].sum()).item():.9f}")
        print(f"call {call} rows", " ".join(f"{v:.7f}" for v in log_p.sum(1).tolist()))


if __name__ == "__main__":
    main()
