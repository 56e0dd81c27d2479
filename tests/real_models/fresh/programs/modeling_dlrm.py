"""A ranker of advertisements: bags of embeddings, dense features, and the products of all pairs."""

import torch
import torch.nn as nn

ROWS = (40, 25, 12)


class Ranker(nn.Module):
    def __init__(self, width=8, dense=6):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in ROWS)
        self.bottom = nn.Sequential(nn.Linear(dense, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        number = len(ROWS) + 1
        self.top = nn.Sequential(nn.Linear(width + number * (number - 1) // 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        bags = [table(index, offset) for table, index, offset in zip(self.tables, indices, offsets, strict=True)]
        vectors = torch.stack([x, *bags], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        pairs = products[:, rows, columns]
        return self.top(torch.cat((x, pairs), dim=1)).squeeze(1)
