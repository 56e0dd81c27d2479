"""Sequence labelling with a linear chain CRF whose partition is summed over all the paths."""

import itertools

import torch
from torch import nn

TAGS, LENGTH, WIDTH = 4, 6, 20
PATHS = torch.tensor(list(itertools.product(range(TAGS), repeat=LENGTH)))


class Crf(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(TAGS))
        self.end = nn.Parameter(torch.randn(TAGS))
        self.transition = nn.Parameter(torch.randn(TAGS, TAGS))

    def score(self, emissions, tags):
        total = self.start[tags[..., 0]] + self.end[tags[..., -1]]
        for t in range(tags.shape[-1]):
            total = total + emissions[t][tags[..., t]]
            if t:
                total = total + self.transition[tags[..., t - 1], tags[..., t]]
        return total

    def forward(self, emissions, tags, lengths):
        losses = []
        for e, y, n in zip(emissions, tags, lengths.tolist()):
            paths = PATHS[: TAGS**n, LENGTH - n :]
            losses.append(self.score(e[:n], paths).logsumexp(0) - self.score(e[:n], y[:n]))
        return torch.stack(losses).mean()


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.emit = nn.Linear(WIDTH, TAGS)
        self.crf = Crf()

    def forward(self, ids, tags, lengths):
        x = self.embed(ids)
        x = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.crf(self.emit(x), tags, lengths)


torch.manual_seed(2)
model = Labeller()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-2)
generator = torch.Generator().manual_seed(13)

for step in range(3):
    ids = torch.randint(0, 30, (10, LENGTH), generator=generator)
    lengths = torch.randint(2, LENGTH + 1, (10,), generator=generator)
    tags = (ids + torch.arange(LENGTH)) % TAGS
    loss = model(ids, tags, lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
