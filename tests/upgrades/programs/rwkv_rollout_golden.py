"""Trainer side of an RWKV-like policy: parallel form over whole sequences."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 40
DIM = 32
HEADS = 4
SIZE = DIM // HEADS
TEMPERATURE = 0.7


def shift(x):
    return F.pad(x, (0, 0, 1, 0))[:, :-1]


class TimeMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(4, DIM))
        self.decay = nn.Parameter(torch.empty(HEADS, SIZE).uniform_(-2.5, 0.5))
        self.bonus = nn.Parameter(torch.randn(HEADS, SIZE))
        self.receptance = nn.Linear(DIM, DIM, bias=False)
        self.key = nn.Linear(DIM, DIM, bias=False)
        self.value = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(DIM, DIM, bias=False)
        self.output = nn.Linear(DIM, DIM, bias=False)
        self.ln_x = nn.GroupNorm(HEADS, DIM, eps=1e-4)

    def forward(self, x):
        b, t, _ = x.shape
        delta = shift(x) - x
        xr, xk, xv, xg = (x + delta * m for m in self.mix)
        r = self.receptance(xr).view(b, t, HEADS, SIZE)
        k = self.key(xk).view(b, t, HEADS, SIZE)
        v = self.value(xv).view(b, t, HEADS, SIZE)
        g = F.silu(self.gate(xg))

        rate = torch.exp(self.decay)
        steps = torch.arange(t)
        age = steps[:, None] - steps[None, :] - 1
        weight = torch.exp(-rate[..., None, None] * age.clamp(min=0))
        weight = weight * (age >= 0)
        weight = weight + self.bonus[..., None, None] * (age == -1)
        scores = torch.einsum("bihd,bjhd,hdij->bhij", r, k, weight)
        y = torch.einsum("bhij,bjhd->bihd", scores, v)
        y = self.ln_x(y.reshape(b * t, DIM)).view(b, t, DIM)
        return self.output(y * g)


class ChannelMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(2, DIM))
        self.key = nn.Linear(DIM, 2 * DIM, bias=False)
        self.value = nn.Linear(2 * DIM, DIM, bias=False)
        self.receptance = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        delta = shift(x) - x
        k = F.relu(self.key(x + delta * self.mix[0])).square()
        return torch.sigmoid(self.receptance(x + delta * self.mix[1])) * self.value(k)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.att = TimeMix()
        self.ln2 = nn.LayerNorm(DIM)
        self.ffn = ChannelMix()

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.ln0 = nn.LayerNorm(DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.ln_out = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.ln0(self.emb(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_out(x))


def build():
    torch.manual_seed(81)
    model = Policy()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 2 and name.endswith("weight") and "emb" not in name:
                p.mul_(2.0)
    return model


def requests():
    gen = torch.Generator().manual_seed(82)
    out = []
    for prompt_len, response_len in [(4, 8), (7, 5), (3, 6), (5, 9), (6, 4)]:
        tokens = torch.randint(0, VOCAB, (prompt_len + response_len,), generator=gen).tolist()
        out.append((tokens[:prompt_len], tokens[prompt_len:]))
    return out


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    todo = requests()
    longest = max(len(p) + len(r) for p, r in todo)
    tokens = torch.zeros(len(todo), longest, dtype=torch.long)
    mask = torch.zeros(len(todo), longest)
    for i, (p, r) in enumerate(todo):
        tokens[i, : len(p) + len(r)] = torch.tensor(p + r)
        mask[i, len(p) : len(p) + len(r)] = 1
    logits = model(tokens)[:, :-1] / TEMPERATURE
    logp = logits.log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze(2)
    total = (logp * mask[:, 1:]).sum(1)
    for i, value in enumerate(total):
        print(f"request {i}: logprob {value.item():.5f}")


if __name__ == "__main__":
    main()
