"""A small T5 is adapted with the (IA)3 of peft."""

import torch
from peft import IA3Config, TaskType, get_peft_model
from torch.nn import functional as F
from transformers import T5Config, T5ForConditionalGeneration

VOCAB, DIM = 64, 32


def fill(model):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1:
                weight.copy_(1 + 0.2 * noise)
            else:
                weight.copy_(noise * (0.5 if "relative" in name else weight.shape[-1] ** -0.5))


def shifted(labels):
    start = torch.zeros_like(labels[:, :1])
    return torch.cat([start, labels[:, :-1]], dim=1)


config = T5Config(
    vocab_size=VOCAB,
    d_model=DIM,
    d_kv=8,
    num_heads=4,
    d_ff=48,
    num_layers=2,
    feed_forward_proj="gated-gelu",
    dropout_rate=0.0,
    decoder_start_token_id=0,
    use_cache=False,
)
base = T5ForConditionalGeneration(config)
fill(base)
ia3 = IA3Config(
    task_type=TaskType.SEQ_2_SEQ_LM,
    target_modules=["k", "v", "wo"],
    feedforward_modules=["wo"],
)
model = get_peft_model(base, ia3)
generator = torch.Generator().manual_seed(14)
with torch.no_grad():
    for name, weight in model.named_parameters():
        if "ia3_l" in name:
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-2)
model.train()

for step in range(3):
    source = torch.randint(2, VOCAB, (8, 10), generator=generator)
    labels = source.flip(1)[:, :7]
    mask = (torch.rand(8, 10, generator=generator) > 0.1).long()
    output = model(input_ids=source, attention_mask=mask, decoder_input_ids=shifted(labels))
    loss = F.cross_entropy(output.logits.flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
