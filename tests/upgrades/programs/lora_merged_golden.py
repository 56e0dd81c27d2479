"""LoRA fine-tuning of a small causal transformer, the adapters live beside the frozen layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, BLOCKS, RANK, ALPHA = 31, 24, 3, 2, 4, 8


class LoRALinear(nn.Module):
    def __init__(self, base, rank=RANK, alpha=ALPHA):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(x, self.lora_a), self.lora_b)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = LoRALinear(nn.Linear(DIM, DIM))
        self.k_proj = nn.Linear(DIM, DIM)
        self.v_proj = LoRALinear(nn.Linear(DIM, DIM))
        self.o_proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(DIM), Attention()
        self.ln2, self.fc, self.out = nn.LayerNorm(DIM), LoRALinear(nn.Linear(DIM, 40)), nn.Linear(40, DIM)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.out(F.relu(self.fc(self.ln2(x))).square())


class CausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln = nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.lm_head(self.ln(x))


def fill(model):
    """pretrained weights and a started adapter, one draw per name"""
    for i, (name, p) in enumerate(sorted(model.named_parameters())):
        g = torch.Generator().manual_seed(4000 + i)
        p.data = torch.randn(p.shape, generator=g) * (0.25 if p.dim() > 1 else 0.1) + (
            1.0 if "ln" in name and "weight" in name else 0.0
        )


def main():
    model = CausalLM()
    fill(model)
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.1)
    for step in range(3):
        ids = torch.randint(0, VOCAB, (4, 10), generator=torch.Generator().manual_seed(step))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    with torch.no_grad():
        ids = torch.randint(0, VOCAB, (4, 10), generator=torch.Generator().manual_seed(50))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    print(f"eval loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
