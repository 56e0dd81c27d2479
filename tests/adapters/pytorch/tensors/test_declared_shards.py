"""What ``shard`` accepts, and what it costs where nobody records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist

from msprobe.core.dump.record.declared_shards import ATTRIBUTE
from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger
from msprobe.pytorch.parallel import shard
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    """A job of one process, and no debugger."""
    forget()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    forget()


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("dim", "group", "said"),
    [
        (2, None, "dim=2 is no axis of Parameter ((3, 4))"),
        (-3, None, "dim=-3 is no axis"),
        (True, None, "dim=True is no axis"),
        ("0", None, "is no axis"),
        (0, [0, 1], "is no process group that this rank is a member of"),
        (0, dist.GroupMember.NON_GROUP_MEMBER, "is no process group that this rank is a member of"),
    ],
)
def test_wrong_use_is_one_clear_error(dim: object, group: object, said: str) -> None:
    with pytest.raises(MsprobeException, match=re.escape(said)):
        shard(torch.nn.Parameter(torch.ones(3, 4)), dim, group)  # type: ignore[arg-type]


def test_a_group_without_a_job_is_an_error(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    group = dist.group.WORLD
    dist.destroy_process_group()
    with pytest.raises(MsprobeException, match="distributed is not initialised"):
        shard(torch.nn.Parameter(torch.ones(3, 4)), 0, group)


def test_a_module_without_such_an_axis_is_an_error() -> None:
    with pytest.raises(MsprobeException, match=r"dim=1 is no axis of LayerNorm \(\(4,\), \(4,\)\)"):
        shard(torch.nn.LayerNorm(4), 1)
    with pytest.raises(MsprobeException, match="no parameters"):
        shard(torch.nn.ReLU(), 0)


@pytest.mark.usefixtures("one_rank")
def test_the_same_program_on_one_process_says_nothing() -> None:
    weight = torch.nn.Parameter(torch.ones(3, 4))
    assert shard(weight, 0) is weight
    assert not hasattr(weight, ATTRIBUTE)


def test_an_activation_is_not_touched_without_a_debugger() -> None:
    forget()
    value = torch.ones(3)
    assert shard(value, 7, "what nobody looks at") is value
    assert vars(value) == {}


@pytest.mark.parametrize("summary", ["statistics", "md5", "xor"])
def test_every_kind_of_record_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summary: str) -> None:
    forget()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda _: [0, 1])
    fields = {"task": "statistics", "level": "L1", "dump_path": str(tmp_path), "summary_mode": summary}
    debugger = PrecisionDebugger(fields)
    whole, transposed = torch.ones(3, 4), torch.ones(4, 3).t()
    for each in (whole, transposed):
        shard(each, -1)
    monkeypatch.undo()
    with debugger.collect():
        torch.add(whole, transposed)
    forget()
    (path,) = tmp_path.glob("step0/*/dump.json")
    record = json.loads(path.read_text())["data"]["Torch.add.0.forward"]
    assert [each.get("shard") for each in record["input_args"]] == [[{"dim": 1, "group": [0, 1]}]] * 2
    assert "shard" not in record["output"][0]


def test_several_groups_cut_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    weight = torch.nn.Parameter(torch.ones(3, 4))
    for dim, ranks in ((0, [0, 1]), (1, [0, 2]), (1, [0, 1])):
        monkeypatch.setattr(dist, "get_process_group_ranks", lambda _, ranks=ranks: ranks)
        shard(weight, dim)
    assert getattr(weight, ATTRIBUTE) == [{"dim": 1, "group": [0, 2]}, {"dim": 1, "group": [0, 1]}]
