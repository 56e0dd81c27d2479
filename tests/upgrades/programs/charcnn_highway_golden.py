"""Character-aware language model: nn.Conv1d filters, highway layers and an LSTM over the words."""

import torch
from torch import nn


class HighwayLayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x):
        t = self.gate(x).sigmoid()
        return t * torch.relu(self.transform(x)) + (1 - t) * x


class CharCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(8, 8 * width, width) for width in (1, 2, 3)])
        self.highways = nn.Sequential(HighwayLayer(48), HighwayLayer(48))
        self.lstm = nn.LSTM(48, 24, batch_first=True)
        self.out = nn.Linear(24, 40)

    def encode(self, word):
        """A word alone, without padding (it is at least as long as the widest filter)."""
        x = self.embed(word).t().unsqueeze(0)
        pooled = []
        for conv in self.convs:
            pooled.append(torch.tanh(conv(x)).max(dim=-1).values)
        return torch.cat(pooled, dim=-1)

    def forward(self, sentences):
        rows = []
        for sentence in sentences:
            rows.append(torch.cat([self.encode(word) for word in sentence]))
        x = self.highways(torch.stack(rows))
        return self.out(self.lstm(x)[0])


def build():
    torch.manual_seed(0)
    return CharCNN()


def corpus(seed, batch=6, words=9, longest=7):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, longest + 1, (batch, words), generator=g)
    spelled = torch.randint(1, 30, (batch, words, longest), generator=g)
    target = torch.randint(0, 40, (batch, words), generator=g)
    sentences = []
    for row, sizes in zip(spelled, lengths.tolist()):
        sentence = []
        for word, size in zip(row, sizes):
            sentence.append(word[:size])
        sentences.append(sentence)
    return sentences, target


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = nn.CrossEntropyLoss()
    for step in range(3):
        sentences, target = corpus(step)
        loss = criterion(model(sentences).transpose(1, 2), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
