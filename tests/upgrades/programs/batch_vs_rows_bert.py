"""Padded batch against rows one by one sorted by length."""

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(540)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_labels=3
    )
).eval()
with torch.no_grad():
    for _, p in sorted(model.named_parameters()):
        if p.ndim > 1:
            p.copy_(torch.randn(p.shape) * 0.9 / p[0].numel() ** 0.5)
g = torch.Generator().manual_seed(541)
for step in range(2):
    rows = [torch.randint(1, 60, (n,), generator=g) for n in (4, 9, 6)]
    with torch.no_grad():
        order = sorted(range(3), key=lambda i: len(rows[i]))
        found = {i: model(input_ids=rows[i][None]).logits[0] for i in order}
        y = torch.stack([found[i] for i in range(3)])
    print(f"step {step} " + " ".join(f"{v:.9f}" for v in y.flatten().tolist()))
