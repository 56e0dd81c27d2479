"""Padded BERT with eager attention (finfo.min mask) in float32 against bfloat16."""

import torch
import transformers

torch.manual_seed(100)


def spread(model, seed=5):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            if p.ndim > 1:
                p.copy_(torch.randn(p.shape, generator=g) * 0.8 / p[0].numel() ** 0.5)


CONFIG = transformers.BertConfig(
    vocab_size=60,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    attn_implementation="eager",
)
model = transformers.BertModel(CONFIG)
spread(model)
model = model.to(torch.bfloat16)
model.eval()
g = torch.Generator().manual_seed(6)
with torch.no_grad():
    for step in range(2):
        ids = torch.randint(1, 60, (2, 10), generator=g)
        mask = torch.ones_like(ids)
        mask[1, 4:] = 0
        y = model(input_ids=ids, attention_mask=mask).last_hidden_state[1, :4].float()
        print(f"step {step} std {y.std().item():.9f} abs {y.abs().mean().item():.9f}")
