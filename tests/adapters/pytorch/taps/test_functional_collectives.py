"""Functional collectives return a tensor under way; its record has the values once the program has waited for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

BEFORE = {name: getattr(functional, name) for name in ("all_reduce", "wait_tensor", "all_to_all_single")}


@pytest.fixture(autouse=True)
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    forget()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    forget()


def started(folder: Path, **config: Any) -> Any:
    given = {"task": "statistics", "level": "L1", **config}
    debugger = PrecisionDebugger({"dump_path": str(folder / "dump"), **given})
    debugger.start()
    return debugger


def data(folder: Path) -> dict[str, Any]:
    (document,) = folder.glob("dump/step0/rank0/dump.json")
    result: dict[str, Any] = json.loads(document.read_text())["data"]
    return result


def under_way() -> torch.Tensor:
    result: torch.Tensor = functional.all_reduce(torch.tensor([1.0, 3.0]), "sum", dist.group.WORLD)
    assert isinstance(result, functional.AsyncCollectiveTensor) and not result.completed
    return result


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("mode", ["statistics", "md5"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("async_dump", [False, True])
def test_values_are_recorded_when_the_program_waits(tmp_path: Path, mode: str, task: str, async_dump: bool) -> None:
    debugger = started(tmp_path, task=task, async_dump=async_dump, statistics={"summary_mode": mode})
    received = under_way()
    assert torch.relu(received).tolist() == [1.0, 3.0]
    debugger.stop()
    debugger.step()
    entries = data(tmp_path)
    assert list(entries) == ["Distributed.all_reduce.0.forward", "Torch.relu.0.forward"]
    result, used = entries["Distributed.all_reduce.0.forward"]["output"][0], entries["Torch.relu.0.forward"]
    for node in (result, used["input_args"][0]):
        assert (node["Max"], node["Min"], "no_data" in node) == (3.0, 1.0, False)
    if task == "tensor":
        saved = torch.load(tmp_path / "dump" / "step0" / "rank0" / "dump_tensor_data" / result["data_name"])
        assert saved.tolist() == [1.0, 3.0]
    elif mode == "md5":
        assert result["md5"] == used["output"][0]["md5"] is not None


def test_nobody_waits_for_a_record(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    received = under_way()
    debugger.stop()
    assert not received.completed
    debugger.step()
    assert not received.completed
    assert data(tmp_path)["Distributed.all_reduce.0.forward"]["output"][0]["no_data"] is True
    assert received.tolist() == [1.0, 3.0]


def test_many_calls_between_a_call_and_its_wait(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    received = under_way()
    for _ in range(100):
        torch.relu(torch.ones(2))
    received.tolist()
    debugger.stop()
    debugger.step()
    entries = data(tmp_path)
    assert len(entries) == 101
    assert entries["Distributed.all_reduce.0.forward"]["output"][0]["Max"] == 3.0


def test_a_view_that_is_waited_for_completes_the_record_of_the_whole(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    received = under_way()
    (received.view(2, 1) + 1).tolist()
    debugger.stop()
    debugger.step()
    assert data(tmp_path)["Distributed.all_reduce.0.forward"]["output"][0]["Min"] == 1.0


def test_a_tensor_that_dies_unused_is_forgotten(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    under_way()
    torch.relu(torch.ones(2))
    debugger.stop()
    debugger.step()
    assert list(data(tmp_path)) == ["Distributed.all_reduce.0.forward", "Torch.relu.0.forward"]


def test_nothing_is_wrapped_while_idle(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    kept = under_way()
    assert functional.all_reduce is not BEFORE["all_reduce"]
    debugger.stop()
    kept.tolist()
    assert {name: getattr(functional, name) for name in BEFORE} == BEFORE
    debugger.step()


def test_a_filtered_call_is_neither_recorded_nor_awaited(tmp_path: Path) -> None:
    debugger = started(tmp_path, statistics={"list": ["relu"]})
    received = under_way()
    assert functional.wait_tensor is BEFORE["wait_tensor"]
    received.tolist()
    torch.relu(torch.ones(2))
    debugger.stop()
    debugger.step()
    assert list(data(tmp_path)) == ["Torch.relu.0.forward"]


def test_the_group_is_recorded_whatever_names_it(tmp_path: Path) -> None:
    debugger = started(tmp_path)
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    for group in (dist.group.WORLD, mesh, (mesh, 0), dist.group.WORLD.group_name):
        functional.all_to_all_single(torch.ones(2), None, None, group).tolist()
    dist.all_reduce(torch.ones(2))
    functional.all_reduce(torch.ones(2), "sum", mesh).tolist()
    debugger.stop()
    debugger.step()
    entries = data(tmp_path)
    assert [name for name in entries if "all_reduce" in name] == [
        "Distributed.all_reduce.0.forward",
        "Distributed.all_reduce.1.forward",
    ]
    groups = {entry["group_id"] for name, entry in entries.items() if name.startswith("Distributed.")}
    assert len(groups) == 1
    assert entries["Distributed.all_to_all_single.2.forward"]["input_args"][3]["group_ranks"] == [0]
