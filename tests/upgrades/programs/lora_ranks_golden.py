"""LoRA fine-tuning of a tiny causal LM; adapters live beside frozen linears, ranks by pattern."""

import torch
import torch.nn as nn
import torch.nn.functional as F

RANKS = {"q": 4, "v": 8}
ALPHA = 8


class LoraLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        self.scaling = ALPHA / rank

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x)) * self.scaling


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q = LoraLinear(nn.Linear(d, d), RANKS["q"])
        self.k = nn.Linear(d, d)
        self.v = LoraLinear(nn.Linear(d, d), RANKS["v"])
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = [m(x).view(b, t, self.heads, -1).transpose(1, 2) for m in (self.q, self.k, self.v)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class TinyLM(nn.Module):
    def __init__(self, vocab=33, d=24, heads=3, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(16, d)
        self.h = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def build():
    return TinyLM()


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    for name, p in model.named_parameters():
        p.requires_grad = "lora_" in name
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.0)
    g = torch.Generator().manual_seed(9)
    for step in range(3):
        ids = torch.randint(0, 33, (4, 12), generator=g)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
