"""A language model in half precision, modelled on train.py of karpathy/nanoGPT.

An iteration is an update from two micro batches with scaled gradients; where they overflow, the scaler skips it.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
WORDS, LENGTH, SIZE, MICRO = 13, 6, 8, 2


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(SIZE, 3 * SIZE)
        self.c_proj = nn.Linear(SIZE, SIZE)

    def forward(self, x):
        q, k, v = (part.view(len(x), LENGTH, 2, -1).transpose(1, 2) for part in self.c_attn(x).split(SIZE, dim=2))
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).tril() == 0, float("-inf"))
        return self.c_proj((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(SIZE), SelfAttention()
        self.ln_2, self.mlp = nn.LayerNorm(SIZE), nn.Sequential(nn.Linear(SIZE, 16), nn.GELU(), nn.Linear(16, SIZE))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, SIZE), nn.Embedding(LENGTH, SIZE)
        self.h, self.ln_f = nn.ModuleList([Block()]), nn.LayerNorm(SIZE)
        self.lm_head = nn.Linear(SIZE, WORDS, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, words, targets):
        x = self.wte(words) + self.wpe(torch.arange(LENGTH))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, WORDS), targets.view(-1))


text = torch.randint(0, WORDS, (64,))


def get_batch():
    starts = torch.randint(len(text) - LENGTH, (3,)).tolist()
    return [torch.stack([text[i + shift : i + shift + LENGTH] for i in starts]) for shift in (0, 1)]


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
words, targets = get_batch()
for _iter_num in range(6):
    for _micro_step in range(MICRO):
        with torch.amp.autocast("cpu", dtype=torch.float16):
            logits, loss = model(words, targets)
            loss = loss / MICRO
        words, targets = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print((loss.item() * MICRO).hex(), scaler.get_scale())
