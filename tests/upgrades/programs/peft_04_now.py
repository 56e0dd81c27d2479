"""LoRA on an own model."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(40, 32)
        self.query = nn.Linear(32, 32)
        self.key = nn.Linear(32, 32)
        self.value = nn.Linear(32, 32)
        self.head = nn.Linear(32, 40)

    def forward(self, ids):
        x = self.tok(ids)
        q, k, v = self.query(x), self.key(x), self.value(x)
        a = (q @ k.transpose(1, 2) / 32**0.5).softmax(-1)
        return self.head(x + a @ v)


def build():
    cfg = LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"], lora_dropout=0.0, bias="none")
    return get_peft_model(Net(), cfg)


def canonical(key):
    return key.replace(".base_layer", "").replace("base_model.model.", "").replace(".default", "")


if __name__ == "__main__":
    model = build()
    saved = {canonical(k): v for k, v in torch.load("weights.pt").items()}
    with torch.no_grad():
        for k, p in model.named_parameters():
            p.copy_(saved[canonical(k)])
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    gen = torch.Generator().manual_seed(31)
    for step in range(3):
        ids = torch.randint(0, 40, (2, 8), generator=gen)
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(-1, 1).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")
