"""Soft prompt as a parameter against virtual tokens of an extended table."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(510)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
)
model.requires_grad_(False)
start = torch.randn(4, 32) * 0.3


class Table(nn.Module):
    """virtual tokens: ids above the vocabulary pick rows of the prompt"""

    def __init__(self):
        super().__init__()
        self.extra = nn.Parameter(start.clone())
        self.register_buffer("frozen", model.transformer.wte.weight.detach().clone())

    def forward(self, ids):
        return F.embedding(ids, torch.cat([self.frozen, self.extra]))


class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table()
        self.model = model

    def forward(self, ids):
        virtual = torch.arange(50, 54).expand(len(ids), -1)
        emb = self.table(torch.cat([virtual, ids], 1))
        return self.model(inputs_embeds=emb).logits[:, 4:]


tuned = Prompted()
opt = torch.optim.Adam([p for p in tuned.parameters() if p.requires_grad], lr=0.05)
g = torch.Generator().manual_seed(511)
for step in range(3):
    ids = torch.randint(0, 50, (2, 8), generator=g)
    logits = tuned(ids)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
