"""A recurrent language model with tied weights, modelled on word_language_model/main.py of pytorch/examples.

The parameters are updated by hand. An iteration is a piece of the text; each epoch ends with an evaluation.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
WORDS, SIZE, PIECE = 11, 6, 5


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(WORDS, SIZE)
        self.rnn = nn.LSTM(SIZE, SIZE, 2, dropout=0.2)
        self.decoder = nn.Linear(SIZE, WORDS)
        self.decoder.weight = self.encoder.weight

    def forward(self, words, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(words)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, WORDS)
        return F.log_softmax(decoded, dim=1), hidden


def first_hidden(batch):
    return torch.zeros(2, batch, SIZE), torch.zeros(2, batch, SIZE)


model = RNNModel()
criterion = nn.NLLLoss()
text = torch.randint(0, WORDS, (3 * PIECE + 1, 4))
rate = 0.5


def pieces():
    for start in range(0, len(text) - 1, PIECE):
        yield text[start : start + PIECE], text[start + 1 : start + PIECE + 1].reshape(-1)


def train():
    model.train()
    hidden = first_hidden(4)
    for words, targets in pieces():
        model.zero_grad()
        hidden = tuple(state.detach() for state in hidden)
        output, hidden = model(words, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-rate)
        print(loss.item().hex())


def evaluate():
    model.eval()
    hidden, total = first_hidden(4), 0.0
    with torch.no_grad():
        for words, targets in pieces():
            output, hidden = model(words, hidden)
            total += criterion(output, targets).item()
    return total


for _epoch in range(2):
    train()
    print("evaluation", evaluate().hex())
