"""Transformers Llama full forward against cached decoding."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(410)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
).eval()
with torch.no_grad():
    for _, p in sorted(model.named_parameters()):
        if p.ndim > 1:
            p.copy_(torch.randn(p.shape) * 0.9 / p[0].numel() ** 0.5)
g = torch.Generator().manual_seed(411)
new = torch.randint(0, 60, (2, 7), generator=g)
past, seen = None, 0
with torch.no_grad():
    for step in range(4):
        pos = torch.arange(seen, seen + new.shape[1])[None]
        out = model(input_ids=new, past_key_values=past, position_ids=pos, use_cache=True)
        past, seen = out.past_key_values, seen + new.shape[1]
        y = out.logits[:, -1]
        new = y.argmax(-1, keepdim=True)
        print(f"step {step} {y.std().item():.9f} {y.max().item():.9f} {y[-1, 3].item():.9f}")
