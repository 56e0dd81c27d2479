"""Memory that is written part by part: what is written has values, the rest has none, and faults are found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import msprobe
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory
from msprobe.core.capture import partial_writes
from tests.adapters.pytorch.tensors.test_unwritten import _leftovers, record  # noqa: F401

pytestmark = pytest.mark.torch

ROW = torch.arange(8.0)
EVEN = torch.arange(48).view(6, 8) % 2 == 0


def rows(fault: float) -> None:
    out = torch.empty(6, 8)
    for i in range(6):
        out[i] = torch.mul(ROW, i * fault)
    torch.relu(out)


def selected(fault: float) -> None:
    out = torch.empty(6, 8)
    for i in range(6):
        out.select(0, i).fill_(i * fault)
    torch.relu(out)


def cache(fault: float) -> None:
    keys = torch.empty(6, 8)
    for i in range(3):
        keys.narrow(0, 2 * i, 2).copy_(torch.mul(ROW, fault))
        torch.relu(keys.narrow(0, 0, 2 * i + 2))


def masked(fault: float) -> None:
    out = torch.empty(6, 8)
    out[EVEN] = 1.0
    torch.flatten(out)
    out.masked_fill_(~EVEN, fault)
    torch.relu(out)


def indexed(fault: float) -> None:
    out = torch.empty(6, 8)
    out.index_copy_(0, torch.tensor([4, 0]), torch.mul(torch.ones(2, 8), fault))
    torch.flatten(out)
    out.index_fill_(0, torch.tensor([1, 2, 3, 5]), 2.0)
    torch.relu(out)


def scattered(fault: float) -> None:
    out = torch.empty(6, 8)
    out.scatter_(0, torch.zeros(1, 8, dtype=torch.int64), fault)
    torch.flatten(out)
    out.index_put_((torch.arange(1, 6),), torch.tensor(3.0))
    torch.relu(out)


def through_views(fault: float) -> None:
    out = torch.empty(6, 8)
    for i in range(3):
        out.view(3, 2, 8)[i, :, :4] = fault
        out.view(3, 2, 8)[i, :, 4:].zero_()
        torch.flatten(out[: 2 * i + 2])
    torch.relu(out)


PROGRAMS = [rows, selected, cache, masked, indexed, scattered, through_views]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    "options",
    [{}, {"statistics": {"summary_mode": "md5"}}, {"task": "tensor"}, {"statistics": {"list": ["Aten."]}}],
    ids=str,
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_equal_runs_are_the_same(tmp_path: Path, program: Callable[[float], Any], options: dict[str, Any]) -> None:
    for name in ("first", "second"):
        record(tmp_path / name, lambda: program(1.0), **options)
    result = msprobe.compare(tmp_path / "second", tmp_path / "first")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_written_has_values_and_the_rest_has_none(tmp_path: Path, program: Callable[[float], Any]) -> None:
    data = record(tmp_path, lambda: program(1.0))
    last = [entry for name, entry in data.items() if name.startswith("Torch.relu.")][-1]
    node = last["input_args"][0]
    assert node["Norm"] is not None and node["shape"] == [6, 8]
    unwritten = [
        part
        for entry in data.values()
        for part in (*entry["input_args"], *entry["output"])
        if isinstance(part, dict) and math.prod(part.get("shape", ())) == 48 and "uninitialised" in part
    ]
    assert unwritten
    assert all(part["Norm"] is None for part in unwritten)


FAULTS = [
    (rows, "Torch.mul.1.forward"),  # the calls before it are warnings: what they return is seen nowhere else
    (selected, "Tensor.fill_.1.forward"),
    (cache, "Torch.mul.0.forward"),
    (masked, "Tensor.masked_fill_.0.forward"),
    (indexed, "Torch.mul.0.forward"),
    (scattered, "Tensor.scatter_.0.forward"),
    (through_views, "Tensor.__setitem__.0.forward"),
]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(("program", "where"), FAULTS)
def test_a_fault_in_what_is_written_is_found(
    tmp_path: Path, program: Callable[[float], Any], where: str, task: str
) -> None:
    record(tmp_path / "golden", lambda: program(1.0), task=task)
    record(tmp_path / "fault", lambda: program(1.5), task=task)
    result = msprobe.compare(tmp_path / "fault", tmp_path / "golden")
    assert result.summary.first_divergence is not None
    assert (result.verdict, result.summary.first_divergence.target) == ("diverged", where)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("hidden", [0, 1, 2])
@pytest.mark.parametrize("maker", ["empty", "zeros"])
def test_a_fault_that_no_argument_shows_is_found(tmp_path: Path, hidden: int, task: str, maker: str) -> None:
    """In what is written (0), in what is read from the written part (1), in the last part (2); as in ``zeros``."""

    def program(fault: float) -> None:
        factors = [fault if hidden == place else 1.0 for place in range(3)]
        keys = getattr(torch, maker)(6, 8)
        for i in range(3):
            key = torch.add(ROW, i)
            key.data *= factors[0] if i == 0 else factors[2] if i == 2 else 1.0
            keys[2 * i : 2 * i + 2] = key
            part = keys.narrow(0, 0, 2 * i + 2)
            if i == 1:
                part = torch.ops.aten.mul.Scalar(part, factors[1])  # is not recorded, the next call shows it
            torch.relu(part)

    record(tmp_path / "golden", lambda: program(1.0), task=task)
    record(tmp_path / "fault", lambda: program(1.5), task=task)
    first = msprobe.compare(tmp_path / "fault", tmp_path / "golden").summary.first_divergence
    expected = ("Tensor.__imul__.0.forward", "Torch.relu.1.forward", "Tensor.__imul__.2.forward")
    assert first is not None
    assert first.target == expected[hidden]


def reads_first(out: torch.Tensor) -> None:
    out.add_(1.0)


def as_integers(out: torch.Tensor) -> None:
    out.view(torch.int16)[:3] = 1


def in_another_way(out: torch.Tensor) -> None:
    torch._foreach_zero_([out[:3]])


@pytest.mark.parametrize("write", [reads_first, as_integers, in_another_way])
def test_a_write_that_is_not_known_counts_as_the_whole(tmp_path: Path, write: Callable[[torch.Tensor], None]) -> None:
    def program() -> None:
        out = torch.empty(6, 8)
        out[0] = 1.0
        write(out)
        torch.relu(out)

    node = record(tmp_path, program)["Torch.relu.0.forward"]["input_args"][0]
    assert "uninitialised" not in node


def test_of_large_memory_no_flags_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msprobe.adapters.pytorch.tensors.unwritten.LARGEST", 47)

    def program() -> None:
        out = torch.empty(6, 8)
        out[0] = 1.0
        torch.relu(out)

    assert "uninitialised" not in record(tmp_path, program)["Torch.relu.0.forward"]["input_args"][0]


def test_every_writer_marks_what_it_writes() -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "copy_": (torch.ones(6, 8),),
        "fill_": (1.0,),
        "geometric_": (0.5,),
        "__setitem__": (slice(0, 2), 1.0),
        "index_put_": ((torch.tensor([1]), torch.tensor([2])), torch.tensor(1.0)),
        "index_copy_": (1, torch.tensor([3]), torch.ones(6, 1)),
        "index_fill_": (0, torch.tensor([3]), 1.0),
        "masked_fill_": (EVEN, 1.0),
        "masked_scatter_": (EVEN, torch.ones(24)),
        "scatter_": (0, torch.zeros(1, 8, dtype=torch.int64), 1.0),
    }
    for api in partial_writes.WRITERS:
        out, unwritten = torch.full((6, 8), -1.0), TorchUnwrittenMemory()
        unwritten.add(out)
        args = (out, *calls.get(api, ()))
        memory = unwritten.begin_write(api, out)
        assert (memory is None) is partial_writes.writes_all(api)
        getattr(torch.Tensor, api)(*args)
        if memory is not None:
            unwritten.end_write(memory, api, args, {})
        for element in range(48):
            written = bool(out.flatten()[element] != -1.0)
            assert unwritten.holds(out.flatten()[element]) is not written, api
