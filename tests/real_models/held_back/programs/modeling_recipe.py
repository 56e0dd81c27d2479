"""An encoder of torch's own layers that predicts a series."""

import torch
import torch.nn as nn


class Forecaster(nn.Module):
    def __init__(self, features=6, width=32, heads=4):
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.register_buffer("positions", torch.sin(torch.arange(16)[:, None] / (1 + torch.arange(width))[None]))
        layer = nn.TransformerEncoderLayer(width, heads, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, features)

    def forward(self, series):
        x = self.embed(series) + self.positions[: series.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(series.shape[1])
        x = self.encoder(x, mask=mask, is_causal=True)
        x, _ = self.gru(x)
        return self.head(x)
