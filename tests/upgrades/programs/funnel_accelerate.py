"""Tokens tagged by a small Funnel transformer with accumulated gradients of accelerate."""

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from transformers import FunnelConfig, FunnelForTokenClassification

LENGTH, TAGS, PARTS = 16, 5, 2


def fill(model):
    generator = torch.Generator().manual_seed(88)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim > 1:
                weight.copy_(noise * weight.shape[-1] ** -0.5)
            else:
                weight.copy_(noise * 0.1 + float(name.endswith("weight")))


def batches():
    generator = torch.Generator().manual_seed(42)
    for _ in range(3 * PARTS):
        ids = torch.randint(3, 50, (4, LENGTH), generator=generator)
        yield ids, ids % TAGS


accelerator = Accelerator(cpu=True, gradient_accumulation_steps=PARTS)
config = FunnelConfig(
    vocab_size=50,
    block_sizes=[1, 1],
    num_decoder_layers=1,
    d_model=24,
    n_head=3,
    d_head=8,
    d_inner=40,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    num_labels=TAGS,
)
model = FunnelForTokenClassification(config)
fill(model)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)

step, total = 0, torch.zeros(())
for ids, tags in batches():
    with accelerator.accumulate(model):
        logits = model(input_ids=ids).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
        total += loss.detach() / PARTS
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        loss, total = total, torch.zeros(())
        print(f"step {step} loss {loss.item():.9f}")
        step += 1
