"""Random programs of views, writes in place, ``.data``, slices and freed memory.

Records of one identity have one content, and every use of a recorded result leads to the call that made it.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.store.reader import Dump, only_dump
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.pytorch import PrecisionDebugger
from msprobe.trace.trace import Link, Trace
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch
CALLS = 40


@dataclass
class Storage:
    """Who wrote which elements of a storage, oldest first; None is code that leaves no record."""

    writes: list[tuple[str | None, int, int]] = field(default_factory=list)


@dataclass
class Variable:
    tensor: torch.Tensor
    storage: Storage

    @property
    def span(self) -> tuple[int, int]:
        tensor = self.tensor
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        return tensor.storage_offset(), tensor.storage_offset() + 1 + last

    @property
    def maker(self) -> str | None:
        """The call that wrote any of its elements last."""
        begin, end = self.span
        return next(name for name, first, behind in reversed(self.storage.writes) if first < end and begin < behind)

    def write(self, name: str | None) -> None:
        self.storage.writes.append((name, *self.span))


class Program:
    """A program of ``CALLS`` recorded calls; ``uses`` is what it knows of the first argument of each.

    What is a part of memory that other code has changed as a whole shows no trace of it, and is left out.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.counts: Counter[str] = Counter()
        self.uses: dict[str, str | None] = {}
        self.variables = [self.source() for _ in range(2)]

    def source(self) -> Variable:
        own = Variable(torch.randn(4, 6), Storage())
        own.write(None)
        return own

    def use(self, function: str, own: Variable) -> str:
        name = f"Tensor.{function}.{self.counts[function]}.forward"
        self.counts[function] += 1
        if own.maker is not None or len(own.storage.writes) == 1:
            self.uses[name] = own.maker
        return name

    def run(self) -> None:
        while sum(self.counts.values()) < CALLS:
            own = self.random.choice(self.variables)
            self.random.choice([self.compute, self.compute, self.change, self.view, self.bypass, self.free])(own)

    def compute(self, own: Variable) -> None:
        name = self.use("mul", own)
        made = Variable(own.tensor.mul(self.random.uniform(1.1, 1.9)), Storage())
        made.write(name)
        self.variables.append(made)

    def change(self, own: Variable) -> None:
        name = self.use("mul_", own)
        (own.tensor.data if self.random.random() < 0.3 else own.tensor).mul_(self.random.uniform(1.1, 1.9))
        own.write(name)

    def view(self, own: Variable) -> None:
        views: list[Any] = [lambda t: t.detach(), lambda t: t.data, lambda t: t.transpose(0, -1), lambda t: t[...]]
        if own.tensor.dim() > 1 and min(own.tensor.shape) > 1:
            views += [lambda t: t[0], lambda t: t[1:], lambda t: t[:, 1:3]]
        self.variables.append(Variable(self.random.choice(views)(own.tensor), own.storage))

    def bypass(self, own: Variable) -> None:
        if self.random.random() < 0.2:
            own.tensor.detach().numpy()[...] *= self.random.uniform(1.1, 1.9)
            own.write(None)

    def free(self, own: Variable) -> None:
        if len(self.variables) > 3:
            self.variables = [other for other in self.variables if other.storage is not own.storage]
        self.variables += [self.source() for _ in range(2 - len(self.variables))]


def recorded(folder: Path, seed: int) -> tuple[Program, Dump]:
    forget()
    debugger = PrecisionDebugger({
        "dump_path": str(folder),
        "level": "L1",
        "task": "tensor",
        "tensor": {"memory": True},
    })
    program = Program(seed)
    with debugger.collect():
        program.run()
    forget()
    return program, only_dump(folder)


def check_identities(dump: Dump) -> int:
    """Check that tensors of one identity hold the same elements; return how many pairs there were."""
    groups = defaultdict(list)
    for call in Trace(dump.data, {}).calls:
        for value in call.values:
            raw = value.raw
            groups[(raw["memory"], *(raw[name] for name in STATISTIC_NAMES))].append(raw["data_name"])
    for names in groups.values():
        elements = [torch.load(dump.tensor_folder / name).flatten().sort().values for name in names]
        assert all(torch.equal(elements[0], other) for other in elements), names
    return sum(len(names) - 1 for names in groups.values())


@pytest.mark.matrix("fuzz", sample=True, examples=250)
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_every_use_leads_to_its_maker(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    program, dump = recorded(tmp_path_factory.mktemp("program"), seed)
    trace = Trace(dump.data, dump.construct)
    for name, maker in program.uses.items():
        value = trace.by_name[name].given[0]
        assert (name, None if value.is_source else value.root.call.name) == (name, maker)
        assert value.link is Link.RECORDED or (maker is None and value.origin is None)
    assert check_identities(dump) > 0
