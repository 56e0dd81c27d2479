"""Transformers 17877: ``_init_weights`` initialises parameters repeatedly.

Each part of a model ends its set-up with ``post_init``, which initialises everything below it again. Here a
classifier grows by a class during the training, and the ``post_init`` of its new head reaches the trained encoder
too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class PreTrained(nn.Module):
    """The base of all models: how parameters begin."""

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def post_init(self, only: nn.Module | None = None) -> None:
        (self if only is None else only).apply(self._init_weights)


class Encoder(PreTrained):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, width)
        self.dense1, self.dense2 = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.post_init()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).mean(1)
        return self.norm(x + self.dense2(torch.tanh(self.dense1(x))))


class Classifier(PreTrained):
    def __init__(self, classes: int, width: int, fault: bool) -> None:
        super().__init__()
        self.encoder = Encoder(width)
        self.head = nn.Linear(width, classes)
        self.fault = fault

    def grow(self) -> None:
        """Add a class and keep what is known of the others."""
        old = self.head
        self.head = nn.Linear(old.in_features, old.out_features + 1)
        self.post_init(only=None if self.fault else self.head)  # planted
        with torch.no_grad():
            self.head.weight[:-1] = old.weight
            self.head.bias[:-1] = old.bias

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)


def main() -> None:
    given = options()
    model = Classifier(3, 24, given.fault)
    optimizer = optimizer_of(model)
    probe = debugger(given)
    for step in range(4):
        if step == 2:
            model.grow()
            optimizer = optimizer_of(model)
        tokens = torch.randint(0, 30, (8, 7))
        labels = torch.randint(0, model.head.out_features, (8,))
        probe.start(model)
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
