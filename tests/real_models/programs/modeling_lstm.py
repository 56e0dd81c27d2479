"""A small recurrent classifier."""

import torch
import torch.nn as nn


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, states, lengths):
        scores = self.score(states).squeeze(-1)
        positions = torch.arange(states.shape[1])
        hidden = positions[None, :] >= lengths[:, None]
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        return torch.einsum("bt,btw->bw", weights, states)


class Cell(nn.Module):
    """A step of a GRU, written out."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.inner = nn.Linear(width, 3 * width)
        self.outer = nn.Linear(width, 3 * width)

    def forward(self, x, state):
        reset, update, new = self.inner(x).chunk(3, dim=-1)
        reset_h, update_h, new_h = self.outer(state).chunk(3, dim=-1)
        reset = torch.sigmoid(reset + reset_h)
        update = torch.sigmoid(update + update_h)
        new = torch.tanh(new + reset * new_h)
        return (1 - update) * new + update * state


class Tagger(nn.Module):
    def __init__(self, vocabulary, width, hidden, classes):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.cell = Cell(2 * hidden)
        self.pool = Pool(2 * hidden)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, text, lengths):
        x = self.embed(text)
        x, _ = self.lstm(x)
        x = self.norm(x)
        state = torch.zeros(x.shape[0], x.shape[2], dtype=x.dtype)
        states = []
        for position in range(4):
            state = self.cell(x[:, position], state)
            states.append(state)
        early = torch.stack(states, dim=1)
        pooled = self.pool(x, lengths) + early.mean(dim=1)
        return self.head(self.drop(pooled))
