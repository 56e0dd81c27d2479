"""DoRA fine-tuning of a gated tabular network with peft."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F

DIM, RANK = 40, 4
ADAPTED = ["value", "gate", "mix"]


class GatedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.value = nn.Linear(DIM, DIM)
        self.gate = nn.Linear(DIM, DIM)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, x):
        y = self.norm(x)
        return x + self.mix(self.value(y) * self.gate(y).sigmoid())


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(10, DIM)
        self.blocks = nn.Sequential(GatedBlock(), GatedBlock())
        self.head = nn.Linear(DIM, 1)

    def forward(self, x):
        return self.head(F.relu(self.blocks(self.inp(x)))).squeeze(-1)


torch.manual_seed(31)
base = Tabular()
config = LoraConfig(r=RANK, lora_alpha=12, target_modules=ADAPTED, lora_dropout=0.0, use_dora=True)
model = get_peft_model(base, config)

generator = torch.Generator().manual_seed(77)
for block in base.blocks:
    for name in ADAPTED:
        layer = getattr(block, name)
        with torch.no_grad():
            layer.lora_A["default"].weight.copy_(torch.randn(RANK, DIM, generator=generator) * 0.15)
            layer.lora_B["default"].weight.copy_(torch.randn(DIM, RANK, generator=generator) * 0.1)

optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2, weight_decay=0.0)
for step in range(3):
    x = torch.randn(64, 10, generator=generator)
    y = x[:, 0] * x[:, 1] + x[:, 2].abs()
    loss = F.smooth_l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
