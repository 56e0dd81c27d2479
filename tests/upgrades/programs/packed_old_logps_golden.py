"""PPO: old log-probabilities and values, one padded batch of completions."""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, pad):
        t = x.shape[1]
        causal = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        y, _ = self.attn(x, x, x, attn_mask=causal, key_padding_mask=pad, need_weights=False)
        return y


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, pad):
        x = x + self.attn(self.norm1(x), pad)
        return x + self.mlp(self.norm2(x))


class ActorCritic(nn.Module):
    def __init__(self, vocab=30, width=32, heads=4, layers=2, max_len=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(max_len, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.actor = nn.Linear(width, vocab)
        self.critic = nn.Linear(width, 1)

    def forward(self, ids, mask):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, ~mask)
        x = self.norm(x)
        return self.actor(x), self.critic(x).squeeze(-1)


def build():
    return ActorCritic()


def make_data():
    g = torch.Generator().manual_seed(21)
    return [torch.randint(0, 30, (n,), generator=g) for n in (7, 11, 4, 9)]


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    seqs = make_data()
    ids = nn.utils.rnn.pad_sequence(seqs, batch_first=True)
    lens = torch.tensor([len(s) for s in seqs])
    mask = torch.arange(ids.shape[1]) < lens[:, None]
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for it in range(2):
        logits, values = model(ids, mask)
        logp = torch.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, None]).squeeze(2)
        m = mask[:, 1:].float()
        per_seq = (logp * m).sum(1)
        v_mean = (values * mask).sum() / mask.sum()
        print(f"iter {it}: value {v_mean.item():.9f}")
        for s in per_seq:
            print(f"  logp {s.item():.9f}")
        advantage = torch.tensor([1.0, -0.5, 0.7, 0.2])
        loss = -(per_seq * advantage).sum() / m.sum() + 0.5 * v_mean**2
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
