"""Reported on X by jxmnop: the training calls the model itself and not its DistributedDataParallel wrapper.

A helper that computes the loss keeps the bare model. Nothing fails, gradients are never averaged.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.silent_errors.frame import debugger, job, options


class TextEncoder(nn.Module):
    def __init__(self, vocabulary: int = 50, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 48, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.project = nn.Linear(width, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.normalize(self.project(self.encoder(self.embed(tokens)).mean(1)), dim=-1)


class ContrastiveTrainer:
    """Trains text embeddings: a query is near its own document and far from those of the others."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer

    def loss(self, queries: Tensor, documents: Tensor) -> Tensor:
        both = self.model(torch.cat([queries, documents]))  # planted
        left, right = both.chunk(2)
        scores = left @ right.mT / 0.1
        return F.cross_entropy(scores, torch.arange(len(scores)))

    def train_step(self, queries: Tensor, documents: Tensor) -> float:
        loss = self.loss(queries, documents)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def main() -> None:
    given = options()
    with job() as (rank, _):
        model = TextEncoder()
        wrapped = DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=2e-3)
        trainer = ContrastiveTrainer(model if given.fault else wrapped, optimizer)
        probe = debugger(given)
        data = torch.Generator().manual_seed(10 + rank)
        for _ in range(3):
            documents = torch.randint(0, 50, (6, 10), generator=data)
            queries = documents[:, torch.randperm(10, generator=data)[:5]]
            queries = F.pad(queries, (0, 5))
            probe.start(wrapped)
            trainer.train_step(queries, documents)
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
