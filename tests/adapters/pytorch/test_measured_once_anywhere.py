"""Whatever a program does to its tensors, the records are those of measuring every tensor each time."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.adapters.pytorch.backend import make
from msprobe.adapters.pytorch.measured_once import LARGE, VARIABLE
from msprobe.core.config import load_config
from msprobe.core.dump.session import DumpSession

pytestmark = pytest.mark.torch

SIZE = LARGE // 4
TENSORS = 3


class Program:
    """A few tensors, some with aliases that were taken early, and what may be done to them, by number."""

    def __init__(self, gradients: bool) -> None:
        self.arrays: list[Any] = []
        self.aliases: list[torch.Tensor] = []
        self.leaf = torch.full((SIZE,), 0.5, requires_grad=gradients)
        self.all: list[torch.Tensor] = [torch.full((SIZE,), float(number)) for number in range(TENSORS)]
        self.arrays.append(self.all[0].numpy())
        self.aliases.append(self.all[1].data)

    def run(self, steps: Sequence[tuple[str, int, int]]) -> None:
        for name, one, other in steps:
            with contextlib.suppress(RuntimeError):  # what autograd or inference mode forbids: the same in both runs
                STEPS[name](self, one, other)
            self.look()
        with contextlib.suppress(RuntimeError):
            total = sum(x.sum() for x in self.all)
            torch.mul(total, 1.0).backward()
        if self.leaf.grad is not None:
            torch.mul(self.leaf.grad, 2)

    def look(self) -> None:
        for x in self.all:
            torch.neg(x)

    # ---- what makes a tensor ----

    def add(self, one: int, other: int) -> None:
        self.all[one] = torch.add(self.all[other].reshape(-1)[:1], torch.ones(SIZE))

    def from_leaf(self, one: int, other: int) -> None:
        self.all[one] = torch.mul(self.leaf, other + 2.0)

    def through_two(self, one: int, other: int) -> None:
        x = torch.mul(self.leaf, 3.0)
        self.all[one] = torch.add(torch.mul(x, x), x)

    def renewed(self, one: int, other: int) -> None:
        self.all[one] = torch.zeros(1)
        gc.collect()
        self.all[one] = torch.full((SIZE,), other + 0.25)

    def twice(self, one: int, other: int) -> None:
        self.all[one] = torch.mul(self.all[one], 1.5)

    # ---- views and aliases ----

    def view(self, one: int, other: int) -> None:
        self.all[one] = self.all[other].reshape(2, -1)

    def transposed(self, one: int, other: int) -> None:
        self.all[one] = self.all[other].reshape(4, -1).t()

    def half(self, one: int, other: int) -> None:
        self.all[one] = torch.cat([self.all[other].reshape(-1)] * 2)[::2]

    def detached(self, one: int, other: int) -> None:
        self.all[one] = self.all[other].detach()

    def split(self, one: int, other: int) -> None:
        wide = torch.cat([self.all[one].reshape(-1), self.all[other].reshape(-1)])
        self.all[one], self.all[other] = torch.split(wide, wide.numel() // 2)[:2]

    # ---- writes that are counted ----

    def in_place(self, one: int, other: int) -> None:
        self.all[one].add_(1)

    def element(self, one: int, other: int) -> None:
        self.all[one].view(-1)[other + 1] = 31.0

    def copied(self, one: int, other: int) -> None:
        self.all[one].copy_(self.all[other].reshape(self.all[one].shape))

    def foreach(self, one: int, other: int) -> None:
        torch._foreach_add_([self.all[one], self.all[other]], 2.0)

    def out(self, one: int, other: int) -> None:
        torch.sub(self.all[other].reshape(self.all[one].shape), 1, out=self.all[one])

    def no_grad(self, one: int, other: int) -> None:
        with torch.no_grad():
            self.all[one].mul_(2)
            self.all[other] = torch.add(self.all[other], 3)

    def inference(self, one: int, other: int) -> None:
        with torch.inference_mode():
            self.all[one] = torch.add(self.all[one], 1)
            self.all[one].add_(1)
            self.all[other].add_(1)

    def resized(self, one: int, other: int) -> None:
        size = self.all[one].shape
        self.all[one].resize_(8)
        torch.neg(self.all[one].add_(5))
        self.all[one].resize_(size)

    # ---- writes that are not ----

    def by_data(self, one: int, other: int) -> None:
        self.all[one].data.view(-1)[1].add_(7)

    def by_alias(self, one: int, other: int) -> None:
        for alias in self.aliases:
            alias.view(-1)[2] = other + 11.0
        self.aliases.append(self.all[one].data)

    def by_numpy(self, one: int, other: int) -> None:
        for array in self.arrays:
            array.reshape(-1)[3] = other + 13.0
        self.arrays.append(self.all[one].detach().numpy())

    def by_pointer(self, one: int, other: int) -> None:
        ctypes.c_float.from_address(self.all[one].data_ptr() + 4).value = other + 17.0

    def by_storage(self, one: int, other: int) -> None:
        self.all[one].untyped_storage()[5] = other + 1

    def by_dlpack(self, one: int, other: int) -> None:
        torch.from_dlpack(self.all[one].detach()).view(-1)[1] = 19.0

    def data_assigned(self, one: int, other: int) -> None:
        self.all[one].data = torch.full(tuple(self.all[one].shape), other + 23.0)

    def set(self, one: int, other: int) -> None:
        self.all[one].detach().set_(self.all[other].detach()).view(-1)[1] = 29.0

    def swapped(self, one: int, other: int) -> None:
        if one != other:
            torch.utils.swap_tensors(self.all[one], self.all[other])


STEPS: dict[str, Callable[[Program, int, int], None]] = {
    name: step for name, step in vars(Program).items() if not name.startswith("_") and name not in ("run", "look")
}


def recorded(root: Path, level: str, gradients: bool, steps: Sequence[tuple[str, int, int]]) -> str:
    """The data of dump.json as text, in which NaN equals NaN."""
    program, model = Program(gradients), torch.nn.Identity()
    config = {"dump_path": str(root), "level": level, "risk_level": "ALL", "extra_info": False}
    session = DumpSession(load_config(config), make)
    try:
        session.start(model)
        program.run(steps)
        session.stop()
        session.step()
    finally:
        session.close()
    (dump,) = root.rglob("dump.json")
    assert not list(root.rglob("dump_error_info.log"))
    return json.dumps(json.loads(dump.read_text(encoding="utf-8"))["data"], indent=0)


numbers = st.integers(0, TENSORS - 1)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["L1", "mix"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), numbers, numbers), max_size=8), gradients=st.booleans())
def test_records_are_those_of_measuring_every_time(
    level: str, steps: list[tuple[str, int, int]], gradients: bool, tmp_path_factory: Any
) -> None:
    root = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(VARIABLE, "0")
        expected = recorded(root / "each", level, gradients, steps)
    assert recorded(root / "once", level, gradients, steps) == expected
