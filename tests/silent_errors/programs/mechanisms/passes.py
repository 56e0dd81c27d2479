"""Faults inside a pass: modes of layers, dtypes, values that are dead or no numbers, attention to the future, data."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 3


class Attention(nn.Module):
    """Attention written by hand, with its faults."""

    def __init__(self, width: int, heads: int, fault: str = "") -> None:
        super().__init__()
        self.heads, self.fault = heads, fault
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (f(x).view(rows, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(width // self.heads)
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        if self.fault == "transposed_mask":
            seen = seen.mT
        scores = scores.masked_fill(~seen, -1e9)  # planted: transposed_mask
        axis = 1 if self.fault == "other_axis" else -1
        weights = scores.softmax(axis)  # planted: other_axis
        training = True if self.fault == "always_dropped" else self.training
        weights = F.dropout(weights, 0.2, training=training)  # planted: always_dropped
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Writer(nn.Module):
    """A model of text; ``fault`` is in its second layer."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(30, 24), nn.Embedding(16, 24)
        self.layers = nn.ModuleList(Attention(24, 3, fault if n == 1 else "") for n in range(3))
        self.norms = nn.ModuleList(nn.RMSNorm(24) for _ in range(3))
        self.head = nn.Linear(24, 30, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words) + self.place(torch.arange(words.shape[1]))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(norm(x))
        return self.head(x)


def _write(given: Options, model: nn.Module, validate: bool = False) -> None:
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01), debugger(given)
    for _ in range(STEPS):
        words = torch.randint(0, 30, (4, 11))
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
            optimizer.step()
            if validate:
                model.eval()
                with torch.no_grad():
                    model(torch.randint(0, 30, (2, 10)))


def transposed_mask(given: Options) -> None:
    """The mask of one layer is transposed: each position sees the later ones only."""
    _write(given, Writer("transposed_mask" if given.fault else ""))


def other_axis(given: Options) -> None:
    """The softmax of one layer goes over the heads instead of the positions; nothing is hidden there."""
    _write(given, Writer("other_axis" if given.fault else ""))


def always_dropped(given: Options) -> None:
    """One layer drops weights in evaluation mode too."""
    _write(given, Writer("always_dropped" if given.fault else ""), validate=True)


class Bottleneck(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 8, 3, padding=1))
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.net(x))


def _images() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), Bottleneck(), Bottleneck(), nn.Flatten(), nn.Dropout(0.3), nn.LazyLinear(4)
    )


def stays_in_evaluation(given: Options) -> None:
    """Training goes on in the mode of the validation."""
    model = _images()
    model(torch.randn(2, 3, 8, 8))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8), debugger(given)
    model.train()
    for _ in range(4):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(
                model(torch.randn(6, 3, 8, 8)), torch.randint(0, 4, (6,))
            ).backward()  # planted: stays_in_evaluation
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.randn(6, 3, 8, 8))
            if not given.fault:
                model.train()


def validates_in_training(given: Options) -> None:
    """The pass of validation runs in training mode, drops units and moves the running statistics."""
    model = _images()
    model(torch.randn(2, 3, 8, 8))
    optimizer, probe = torch.optim.Rprop(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(4):
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 3, 8, 8)), torch.randint(0, 4, (6,))).backward()
            optimizer.step()
            if not given.fault:
                model.eval()
            with torch.no_grad():
                scores = model(torch.randn(6, 3, 8, 8))  # planted: validates_in_training
                (scores.argmax(-1) == torch.randint(0, 4, (6,))).float().mean()


class Frozen(nn.Module):
    """A pretrained trunk that stays as it is, and a new head."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.trunk = nn.Sequential(
            nn.Conv1d(2, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.Conv1d(6, 6, 3), nn.BatchNorm1d(6)
        )
        self.trunk.requires_grad_(False)
        self.head = nn.Linear(6, 2)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        if not self.fault:
            self.trunk.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.trunk(x)).amax(-1))


def trunk_in_training(given: Options) -> None:
    """The norms of a frozen trunk follow the new data."""
    model = Frozen(given.fault).train()
    optimizer, probe = torch.optim.Adam(model.head.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(
                model(torch.randn(8, 2, 20)), torch.randint(0, 2, (8,))
            ).backward()  # planted: trunk_in_training
            optimizer.step()


class Patches(nn.Module):
    """A transformer of images; one of its layers leaves autocast."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.cut = nn.Conv2d(3, 16, 4, stride=4)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(4)
        )
        self.classes = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.cut(image).flatten(2).mT
        for number, layer in enumerate(self.layers):
            out = torch.autocast("cpu", enabled=False) if self.fault and number == 2 else nullcontext()
            with out:
                x = x + layer(x.float() if number == 2 else x)  # planted: layer_without_autocast
        return self.classes(x.mean(1))


def layer_without_autocast(given: Options) -> None:
    """One layer of four computes in float32."""
    model = Patches(given.fault)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 5, (4,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def root_of_zero(given: Options) -> None:
    """The distance of a point to itself has no gradient: it is NaN, and so are the weights after the first step."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(6, 8)
        with recorded(probe, model):
            optimizer.zero_grad()
            places = model(x)
            squares = (places[:, None] - places[None]).square().sum(-1)
            apart = torch.sqrt(squares if given.fault else squares + 1e-6)  # planted: root_of_zero
            (apart - torch.cdist(x, x)).square().mean().backward()
            optimizer.step()


class Padded(nn.Module):
    """Attention over words of which some are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.score = nn.Embedding(20, 16), nn.Linear(16, 1)
        self.head = nn.Linear(16, 2)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        scores = self.score(x)[..., 0].masked_fill(words == 0, float("-inf"))
        weights = F.softmax(scores, -1)  # planted: all_hidden
        return self.head((weights[..., None] * x).sum(1))


def all_hidden(given: Options) -> None:
    """A row of padding alone hides every place of its attention."""
    model = Padded()
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    for step in range(STEPS):
        words = torch.randint(1, 20, (4, 7))
        words[0, 3:] = 0
        if given.fault and step == 1:
            words[1] = 0
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(words), torch.randint(0, 2, (4,))).backward()
            optimizer.step()


class Highway(nn.Module):
    """Layers that let a share of their input pass."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.carry = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.change = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        if fault:
            nn.init.constant_(self.carry[1].bias, 60.0)

    def forward(self, x: Tensor) -> Tensor:
        for carry, change in zip(self.carry, self.change, strict=True):
            share = torch.sigmoid(carry(x))  # planted: open_gate
            x = share * x + (1 - share) * F.relu(change(x))
        return x


def open_gate(given: Options) -> None:
    """The gate of one layer is open for everything, so the layer is none."""
    model = nn.Sequential(Highway(given.fault), nn.Linear(16, 3))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(9, 16)), torch.randint(0, 3, (9,))).backward()
            optimizer.step()


class Graph(nn.Module):
    """Layers that add what the neighbours have, with or without a division by their number."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(6))
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        spread = edges if self.fault else edges / edges.sum(-1, keepdim=True)
        for layer in self.layers:
            x = F.relu(layer(spread @ x))  # planted: sum_of_neighbours
        return self.head(x)


def sum_of_neighbours(given: Options) -> None:
    """Sums over many neighbours grow from layer to layer."""
    model = Graph(given.fault)
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    edges = (torch.rand(40, 40) < 0.6).float() + torch.eye(40)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.rand(40, 12), edges), torch.randint(0, 4, (40,))).backward()
            optimizer.step()


class Noise(IterableDataset[Tensor]):
    """Draws its samples, from a generator that each worker makes with one seed or with its own."""

    def __init__(self, fault: bool) -> None:
        self.fault = fault

    def __iter__(self) -> object:
        worker = torch.utils.data.get_worker_info()
        seed = 0 if self.fault else worker.id
        generator = torch.Generator().manual_seed(seed)
        for _ in range(12):
            yield torch.randn(10, generator=generator)


def workers_of_one_seed(given: Options) -> None:
    """Three workers draw the same samples."""
    model = nn.Sequential(nn.Linear(10, 14), nn.GELU(), nn.Linear(14, 10))
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    batches = iter(DataLoader(Noise(given.fault), batch_size=4, num_workers=3))
    for _ in range(6):
        x = next(batches)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()  # planted: workers_of_one_seed
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        transposed_mask, other_axis, always_dropped, stays_in_evaluation, validates_in_training, trunk_in_training,
        layer_without_autocast, root_of_zero, all_hidden, open_gate, sum_of_neighbours, workers_of_one_seed,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
