"""BiLSTM tagger: large padded batch, EMA of the weights by torch.optim.swa_utils."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

WORDS, TAGS, EMB, HID = 40, 5, 10, 8
LENGTHS = [9, 4, 7, 2, 8, 3, 5, 6]


class CharCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.chars = nn.Embedding(12, 6, padding_idx=0)
        self.conv = nn.Conv1d(6, 6, 3, padding=1)

    def forward(self, chars):
        b, t, c = chars.shape
        x = self.chars(chars.view(b * t, c)).transpose(1, 2)
        return F.relu(self.conv(x)).amax(2).view(b, t, -1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, EMB)
        self.charcnn = CharCNN()
        self.lstm = nn.LSTM(EMB + 6, HID, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * HID, TAGS)

    def forward(self, words, chars, lengths):
        x = torch.cat([self.words(words), self.charcnn(chars)], dim=-1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(h)


def make_data(seed):
    g = torch.Generator().manual_seed(seed)
    n, t = len(LENGTHS), max(LENGTHS)
    words = torch.randint(0, WORDS, (n, t), generator=g)
    chars = torch.randint(1, 12, (n, t, 5), generator=g)
    tags = (words + chars[..., 0]) % TAGS
    pad = torch.arange(t)[None] >= torch.tensor(LENGTHS)[:, None]
    return words, chars, tags.masked_fill(pad, -100)


def build():
    return Tagger()


def main():
    model = build()
    state = torch.load("weights.pt")
    state["charcnn.chars.weight"][0] = 0.0
    model.load_state_dict(state)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    ema.update_parameters(model)
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    lengths = torch.tensor(LENGTHS)
    for step in range(3):
        words, chars, tags = make_data(step)
        logits = model(words, chars, lengths)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update_parameters(model)
        print(f"step {step}: loss {loss.item():.9f}")
    words, chars, tags = make_data(77)
    with torch.no_grad():
        for name, m in (("raw", model), ("ema", ema)):
            loss = F.cross_entropy(m(words, chars, lengths).flatten(0, 1), tags.flatten())
            print(f"{name} dev loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
