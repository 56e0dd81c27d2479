"""Character-aware language model: filters by unfolded windows, highway layers and an LSTM over the words."""

import torch
import torch.nn.functional as F
from torch import nn


class WindowFilters(nn.Module):
    """Filters of one width over the characters of each word; windows that reach beyond the word do not count."""

    def __init__(self, width, dim, filters):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width, dim, filters))
        self.bias = nn.Parameter(torch.empty(filters))

    def forward(self, chars, lengths):
        windows = chars.unfold(1, self.width, 1)
        scores = torch.einsum("ntdw,wdf->ntf", windows, self.weight) + self.bias
        starts = torch.arange(scores.shape[1])
        valid = starts < (lengths - self.width + 1)[:, None]
        return scores.tanh().masked_fill(~valid.unsqueeze(-1), float("-inf")).amax(dim=1)


class Highway(nn.Module):
    """One matrix for the transform and its gate."""

    def __init__(self, dim):
        super().__init__()
        self.both = nn.Linear(dim, 2 * dim)

    def forward(self, x):
        transform, gate = self.both(x).chunk(2, dim=-1)
        gate = torch.sigmoid(gate)
        return x + gate * (transform.relu() - x)


class CharLM(nn.Module):
    def __init__(self, chars=30, words=40, dim=8, hidden=24, widths=(1, 2, 3), filters=8):
        super().__init__()
        self.embed = nn.Embedding(chars, dim, padding_idx=0)
        self.filters = nn.ModuleList(WindowFilters(w, dim, filters * w) for w in widths)
        total = filters * sum(widths)
        self.highways = nn.ModuleList(Highway(total) for _ in range(2))
        self.lstm = nn.LSTM(total, hidden, batch_first=True)
        self.out = nn.Linear(hidden, words)

    def forward(self, spelled, lengths):
        b, t, c = spelled.shape
        chars = self.embed(spelled.view(b * t, c))
        word = torch.cat([f(chars, lengths.view(-1)) for f in self.filters], dim=-1)
        for highway in self.highways:
            word = highway(word)
        hidden, _ = self.lstm(word.view(b, t, -1))
        return self.out(hidden)


def convert(old):
    new = {}
    for name, value in old.items():
        if name.startswith("convs."):
            index, kind = name.split(".")[1:]
            new[f"filters.{index}.{kind}"] = value.permute(2, 1, 0) if kind == "weight" else value
        elif ".transform." in name:
            gate = old[name.replace("transform", "gate")]
            new[name.replace("transform", "both")] = torch.cat([value, gate])
        elif ".gate." not in name:
            new[name] = value
    return new


def corpus(seed, batch=6, words=9, longest=7):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, longest + 1, (batch, words), generator=g)
    spelled = torch.randint(1, 30, (batch, words, longest), generator=g)
    spelled = spelled * (torch.arange(longest) < lengths.unsqueeze(-1))
    target = torch.randint(0, 40, (batch, words), generator=g)
    return spelled, lengths, target


model = CharLM()
model.load_state_dict(convert(torch.load("weights.pt")))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(3):
    spelled, lengths, target = corpus(step)
    logits = model(spelled, lengths)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
