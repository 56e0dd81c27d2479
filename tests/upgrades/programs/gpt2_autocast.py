"""GPT-2 in float32 against autocast."""

import torch
import transformers

torch.manual_seed(100)


def spread(model, seed=5):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            if p.ndim > 1:
                p.copy_(torch.randn(p.shape, generator=g) * 0.8 / p[0].numel() ** 0.5)


CONFIG = transformers.GPT2Config(
    vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)
model = transformers.GPT2LMHeadModel(CONFIG)
spread(model)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
model.train()
g = torch.Generator().manual_seed(6)
for step in range(2):
    ids = torch.randint(0, 60, (2, 10), generator=g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
