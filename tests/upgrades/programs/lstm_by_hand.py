"""nn.LSTM (two layers) against cells written by hand."""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, n_in, n):
        super().__init__()
        self.x2g = nn.Linear(n_in, 4 * n)
        self.h2g = nn.Linear(n, 4 * n)

    def forward(self, x, h, c):
        i, f, g, o = (self.x2g(x) + self.h2g(h)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.cells = nn.ModuleList([Cell(16, 24), Cell(24, 24)])
        self.out = nn.Linear(24, 5)

    def forward(self, ids):
        x = self.emb(ids)
        state = [(x.new_zeros(len(ids), 24), x.new_zeros(len(ids), 24)) for _ in self.cells]
        ys = []
        for t in range(ids.shape[1]):
            inp = x[:, t]
            for k, cell in enumerate(self.cells):
                h, c = cell(inp, *state[k])
                state[k] = (h, c)
                inp = h
            ys.append(inp)
        return self.out(torch.stack(ys, 1))


sd = torch.load("weights.pt")
model = Tagger()
with torch.no_grad():
    model.emb.weight.copy_(sd["emb.weight"])
    model.out.load_state_dict({"weight": sd["out.weight"], "bias": sd["out.bias"]})
    for k, cell in enumerate(model.cells):
        cell.x2g.load_state_dict({"weight": sd[f"rnn.weight_ih_l{k}"], "bias": sd[f"rnn.bias_ih_l{k}"]})
        cell.h2g.load_state_dict({"weight": sd[f"rnn.weight_hh_l{k}"], "bias": sd[f"rnn.bias_hh_l{k}"]})
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
