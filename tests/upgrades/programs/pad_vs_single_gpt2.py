"""Single sequences against left-padded ones, transformers GPT-2."""

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(410)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
).eval()
with torch.no_grad():
    for _, p in sorted(model.named_parameters()):
        if p.ndim > 1:
            p.copy_(torch.randn(p.shape) * 0.9 / p[0].numel() ** 0.5)
g = torch.Generator().manual_seed(411)
rows = [torch.randint(0, 60, (1, n), generator=g) for n in (5, 8, 8)]
with torch.no_grad():
    for step, row in enumerate(rows):
        pad = 8 - row.shape[1] + 2
        ids = F.pad(row, (pad, 0))
        mask = torch.ones_like(ids)
        mask[:, :pad] = 0
        pos = (mask.cumsum(-1) - 1).clamp(min=0)
        y = model(input_ids=ids, attention_mask=mask, position_ids=pos).logits[:, -1]
        print(f"step {step} {y.std().item():.9f} {y.max().item():.9f} {y[-1, 3].item():.9f}")
