"""Megatron's marks on parameters are read once, and say less than ``shard``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from msprobe.adapters.pytorch.tensors.megatron_marks import read_marks
from msprobe.core.dump.record.declared_shards import declared
from msprobe.pytorch.parallel import shard

pytestmark = pytest.mark.torch

CUT = {"tensor_model_parallel": True, "partition_dim": 1, "partition_stride": 2}
DEFAULTS = {"tensor_model_parallel": False, "partition_dim": -1, "partition_stride": 1, "sequence_parallel": False}


@pytest.fixture
def four_ranks() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    dist.destroy_process_group()


@pytest.fixture
def megatron(four_ranks: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module in which Megatron keeps its groups: two ranks share each layer, all four each expert."""
    state: Any = ModuleType("megatron.core.parallel_state")
    layer, expert = dist.new_group([0, 1]), dist.group.WORLD
    state.get_tensor_model_parallel_group = lambda: layer
    state.get_expert_tensor_parallel_group = lambda: expert
    monkeypatch.setitem(sys.modules, state.__name__, state)
    return state


def marked(**marks: object) -> nn.Linear:
    module = nn.Linear(4, 3, bias=False)
    vars(module.weight).update(marks)
    return module


def said(module: nn.Module) -> Any:
    """Return what the records of a parameter of a model say of its part."""
    read_marks([nn.Sequential(module)])
    return declared(next(module.parameters()), {}).get("shard")


@pytest.mark.usefixtures("megatron")
@pytest.mark.parametrize(
    ("marks", "part"),
    [
        (CUT, {"dim": 1, "group": [0, 1]}),
        (CUT | {"allreduce": True, "sequence_parallel": False}, {"dim": 1, "group": [0, 1]}),
        (CUT | {"allreduce": False}, {"dim": 1, "group": [0, 1, 2, 3]}),
        (DEFAULTS | {"sequence_parallel": True}, {"dim": None, "group": [0, 1]}),
    ],
    ids=["cut", "others", "expert", "copy"],
)
def test_marks_say_the_axis_and_the_ranks(marks: dict[str, object], part: dict[str, object]) -> None:
    assert said(marked(**marks)) == [part]


@pytest.mark.usefixtures("megatron")
@pytest.mark.parametrize(
    "marks",
    [
        {},
        DEFAULTS,
        CUT | {"sequence_parallel": True},
        CUT | {"partition_dim": -1},
        CUT | {"partition_dim": 2},
        {"tensor_model_parallel": True},
        {"sequence_parallel": True, "allreduce": False},
    ],
    ids=["none", "defaults", "contradiction", "no_axis", "other_axis", "axis_left_out", "expert_on_a_part_of_tokens"],
)
def test_what_does_not_tell_says_nothing(marks: dict[str, object]) -> None:
    assert said(marked(**marks)) is None


@pytest.mark.usefixtures("megatron")
def test_the_group_of_the_module_comes_first() -> None:
    module = marked(**CUT)
    module.tp_group = dist.new_group([0, 2])  # type: ignore[assignment]
    assert said(module) == [{"dim": 1, "group": [0, 2]}]
    alone = marked(**CUT)
    alone.tp_group = dist.new_group([0])  # type: ignore[assignment]
    assert said(alone) is None


@pytest.mark.usefixtures("four_ranks")
def test_without_megatron_the_axis_alone_is_known() -> None:
    assert "megatron.core.parallel_state" not in sys.modules
    assert said(marked(**CUT)) == [{"dim": 1, "group": None}]


def test_groups_that_are_not_made_yet_are_not_known(megatron: Any) -> None:
    def not_made() -> Any:
        raise AssertionError("tensor model parallel group is not initialized")

    megatron.get_tensor_model_parallel_group = not_made
    assert said(marked(**CUT)) == [{"dim": 1, "group": None}]


@pytest.mark.usefixtures("megatron")
@pytest.mark.parametrize("first", [True, False])
def test_what_the_program_says_comes_first(first: bool) -> None:
    module = marked(**CUT)
    if first:
        shard(module.weight, 0)
    said(module)
    if not first:
        shard(module.weight, 0)
    assert declared(module.weight, {})["shard"] == [{"dim": 0, "group": [0, 1, 2, 3]}]


def test_one_process_has_the_whole() -> None:
    assert not dist.is_initialized()
    assert said(marked(**CUT)) is None


@pytest.mark.usefixtures("megatron")
def test_a_model_is_read_once() -> None:
    module = marked(**CUT)
    read_marks(module)
    module.weight = nn.Parameter(torch.ones(3, 4))
    vars(module.weight).update(CUT)
    read_marks(module)
    assert declared(module.weight, {}) == {}
    read_marks("what is no model")
