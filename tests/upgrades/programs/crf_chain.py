"""Sequence labelling with a linear chain CRF whose partition is computed by the forward algorithm."""

import torch
from torch import nn

TAGS, LENGTH, WIDTH = 4, 6, 20


class Crf(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(TAGS))
        self.end = nn.Parameter(torch.randn(TAGS))
        self.transition = nn.Parameter(torch.randn(TAGS, TAGS))

    def score(self, emissions, tags, mask):
        emitted = emissions.gather(2, tags[..., None]).squeeze(2) * mask
        moved = self.transition[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return self.start[tags[:, 0]] + emitted.sum(1) + moved.sum(1) + self.end[last]

    def partition(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            inner = alpha[:, :, None] + self.transition + emissions[:, t, None, :]
            alpha = torch.where(mask[:, t, None], inner.logsumexp(dim=1), alpha)
        return (alpha + self.end).logsumexp(dim=1)

    def forward(self, emissions, tags, mask):
        return (self.partition(emissions, mask) - self.score(emissions, tags, mask)).mean()


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.emit = nn.Linear(WIDTH, TAGS)
        self.crf = Crf()

    def forward(self, ids, tags, lengths):
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        x = self.embed(ids)
        x = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.crf(self.emit(x), tags, mask)


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
