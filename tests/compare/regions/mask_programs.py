"""A small decoder whose layers get a mask of truth values or of numbers, with faults in a layer.

What a run computes is named by words: ``kernel`` is attention in one call, ``copied`` a harmless copy, the others are
faults. ``LINES`` has the text that stands in the line of each fault.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

WORDS, WIDTH, HEAD = 20, 16, 8
LINES = {
    "sibling": ("# other module",),
    "shifted": ("# first use of the keys",),
    "overwritten": ("# first use of the overwritten", "# overwritten"),
    "turned": ("# turned",),
    "outside": ("# call of the layer",),
}
"""Fault -> what stands in the lines that may be named."""
MODULES = {
    "sibling": {"layers.0.attention", "layers.0.attention.for_queries", "layers.0.attention.for_keys"},
    "shifted": {"layers.0.attention"},
    "overwritten": {"layers.0", "layers.0.late"},
    "turned": {"layers.1"},
    "outside": {"", "layers.1"},
}
"""Fault -> the modules that may be named; "" for none."""


class Attention(nn.Module):
    def __init__(self, ways: frozenset[str]) -> None:
        super().__init__()
        self.ways = ways
        self.together, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.for_queries, self.for_keys = nn.LayerNorm(HEAD), nn.LayerNorm(HEAD)
        for norm in (self.for_queries, self.for_keys):
            nn.init.uniform_(norm.weight, 0.2, 1.8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        parts = (part.unflatten(-1, (2, HEAD)).transpose(1, 2) for part in self.together(x).chunk(3, -1))
        queries, keys, values = parts
        norm = self.for_keys if "sibling" in self.ways else self.for_queries
        queries = norm(queries)  # other module
        keys = self.for_keys(keys)
        if "shifted" in self.ways:
            keys = keys[:, :, [1, 0, *range(2, keys.shape[2])]]
        if "kernel" in self.ways:
            mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)  # first use of the keys
        else:
            scores = torch.matmul(queries, keys.transpose(2, 3))  # first use of the keys
            mixed = torch.matmul(torch.softmax(scores * HEAD**-0.5 + mask, -1), values)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, ways: frozenset[str]) -> None:
        super().__init__()
        self.ways = ways
        self.early, self.late = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(ways)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if "turned" in self.ways:
            x = x.flip(1)  # turned
        if "copied" in self.ways:
            x = x[:, list(range(x.shape[1]))]
        x = x + self.attention(self.early(x), mask)
        if "overwritten" in self.ways:
            x.data[:, 0] = 0.0  # overwritten
        hidden = self.late(x)  # first use of the overwritten
        return x + self.down(F.gelu(self.up(hidden)))


class Decoder(nn.Module):
    def __init__(self, ways: frozenset[str]) -> None:
        super().__init__()
        self.ways = ways
        place = {"sibling": 0, "shifted": 0, "overwritten": 0, "turned": 1}
        own = [frozenset(way for way in ways if place.get(way, number) == number) for number in range(3)]
        self.embedding, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList(map(Layer, own))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        seen = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).tril()[None, None]
        numbers = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
        x = self.embedding(words)
        for number, layer in enumerate(self.layers):
            if "outside" in self.ways and number == 1:
                x = x[:, [1, 0, *range(2, x.shape[1])]]
            x = layer(x, mask=seen if "kernel" in self.ways else numbers)  # call of the layer
        return self.head(x)


def record(folder: Path, ways: str, level: str) -> None:
    """Record a step of a decoder with ``ways``, words with spaces between them."""
    forget()
    torch.manual_seed(0)
    model = Decoder(frozenset(ways.split()))
    words = torch.randint(0, WORDS, (2, 6), generator=torch.Generator().manual_seed(3))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    with debugger.collect(model=model):
        F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
    forget()
