"""The other implementation of lstm_by_hand.py."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.rnn = nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.out = nn.Linear(24, 5)

    def forward(self, ids):
        y, _ = self.rnn(self.emb(ids))
        return self.out(y)


def build():
    return Tagger()


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(9)
    for step in range(3):
        ids = torch.randint(0, 50, (4, 7), generator=gen)
        tags = torch.randint(0, 5, (4, 7), generator=gen)
        loss = nn.functional.cross_entropy(model(ids).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        print(f"{step} {loss.item():.9f}")
