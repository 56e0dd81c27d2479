"""A translator of GRUs: a decoder that attends to the states of a bidirectional encoder."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)

    def forward(self, source):
        states, last = self.gru(self.embed(source))
        start = torch.tanh(self.bridge(torch.cat((last[0], last[1]), dim=-1)))
        return states, start


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.from_state = nn.Linear(width, width, bias=False)
        self.from_source = nn.Linear(2 * width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, state, states, padding):
        seen = torch.tanh(self.from_source(states) + self.from_state(state).unsqueeze(1))
        scores = self.score(seen).squeeze(-1)
        scores = scores.masked_fill(padding, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights.unsqueeze(1), states).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.attention = Attention(width)
        self.cell = nn.GRUCell(3 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.project = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, previous, state, states, padding):
        word = self.embed(previous)
        context = self.attention(state, states, padding)
        state = self.cell(torch.cat((word, context), dim=-1), state)
        mixed = self.project(torch.cat((state, context, word), dim=-1))
        return self.norm(self.dropout(torch.tanh(mixed))), state


class Translator(nn.Module):
    def __init__(self, words=48, width=24):
        super().__init__()
        self.encoder = Encoder(words, width)
        self.decoder = Decoder(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.decoder.embed.weight

    def forward(self, source, before):
        states, state = self.encoder(source)
        padding = source == 0
        logits = []
        for position in range(before.shape[1]):
            output, state = self.decoder(before[:, position], state, states, padding)
            logits.append(self.head(output))
        return torch.stack(logits, dim=1)
