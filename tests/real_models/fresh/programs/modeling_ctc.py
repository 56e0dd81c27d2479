"""Speech to letters: a convolution that halves the time, recurrent layers over what is there, a score per letter."""

import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Listener(nn.Module):
    def __init__(self, bands=10, width=16, letters=9):
        super().__init__()
        self.conv = nn.Conv1d(bands, width, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm1d(width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, sound, lengths):
        x = sound - sound.mean(dim=1, keepdim=True)
        x = F.hardtanh(self.norm(self.conv(x.transpose(1, 2))), 0, 20).transpose(1, 2)
        lengths = (lengths + 1) // 2
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.head(self.out_norm(x)).log_softmax(dim=-1), lengths
