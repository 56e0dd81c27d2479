"""Memory that nobody has written, and arguments that are not read: no values, and two equal runs agree."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import msprobe
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory, device_sample, is_same_sample
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

LEFTOVERS = random.Random(os.urandom(8))
X, Y = torch.ones(2, 3, 4), torch.ones(2, 4, 5)


def left_over(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``make`` with other random bytes in the memory that it returns, each time."""

    def made(*args: Any, **kwargs: Any) -> Any:
        tensor = make(*args, **kwargs)
        if type(tensor) is torch.Tensor and tensor.is_cpu and tensor.numel():
            size = tensor.untyped_storage().nbytes()
            ctypes.memmove(tensor.data_ptr(), LEFTOVERS.randbytes(size), size)
        return tensor

    return made


@pytest.fixture(autouse=True)
def _leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in [
        (torch, "empty"),
        (torch, "empty_like"),
        (torch, "empty_strided"),
        (torch.Tensor, "new_empty"),
        (torch.Tensor, "new"),
    ]:
        monkeypatch.setattr(owner, name, left_over(getattr(owner, name)))
    monkeypatch.setattr(torch.Tensor, "resize_", left_over(torch.Tensor.resize_))


def record(folder: Path, program: Callable[[], Any], model: Any = None, **options: Any) -> dict[str, Any]:
    forget()
    probe = PrecisionDebugger({
        "dump_path": str(folder),
        "level": "L1",
        "task": "statistics",
        "risk_level": "ALL",
        **options,
    })
    probe.start(model)
    program()
    probe.stop()
    probe.step()
    (path,) = folder.glob("step0/*/dump.json")
    data: dict[str, Any] = json.loads(path.read_text())["data"]
    return data


def viewed() -> None:
    torch.narrow(torch.empty(4, 8), 0, 1, 2)


def like() -> None:
    torch.flatten(torch.empty_like(X))


def strided() -> None:
    torch.transpose(torch.empty_strided((3, 4), (1, 3)), 0, 1)


def new() -> None:
    torch.squeeze(X.new_empty(5, 1))


def new_by_sizes() -> None:
    torch.flatten(X.new(4, 8))
    torch.squeeze(X.new(torch.Size([5, 1])))


def grown() -> None:
    torch.flatten(torch.zeros(0).resize_(7))


def shrunk() -> None:
    torch.flatten(torch.empty(7).resize_(3))


def computed() -> None:
    torch.relu(torch.relu(torch.empty(64)))


def without_beta() -> None:
    buffer = torch.empty(2, 3, 5)
    torch.baddbmm(buffer, X, Y, beta=0.0, alpha=0.5)
    torch.baddbmm(input=buffer, batch1=X, batch2=Y, beta=0)
    buffer.baddbmm_(X, Y, beta=0)
    torch.addmm(torch.empty(3, 5), X[0], Y[0], beta=0)
    torch.addmv(torch.empty(3), X[0], Y[0, :, 0], beta=0)
    torch.addbmm(torch.empty(3, 5), X, Y, beta=0)
    torch.addr(torch.empty(3, 4), X[0, :, 0], Y[0, :, 0], beta=0)


def into() -> None:
    torch.add(X, X, out=torch.empty(2, 3, 4))
    torch.sort(X, out=(torch.empty(2, 3, 4), torch.empty(2, 3, 4, dtype=torch.int64)))


def asked_for() -> None:
    torch.relu(torch.mul(torch.empty(3).fill_(2.0), 3.0))


def copied_deeply() -> None:
    torch.flatten(copy.deepcopy(torch.empty(4, 8)))
    torch.flatten(copy.deepcopy(torch.nn.Parameter(torch.empty(4, 8), requires_grad=False)))


def shared() -> None:
    torch.flatten(torch.empty(4, 8).share_memory_())


def by_numpy() -> None:
    memory = torch.empty(4, 8)
    torch.flatten(torch.from_numpy(memory.numpy()))
    torch.flatten(memory)


COPIES = [copied_deeply, shared, by_numpy]
PROGRAMS = [viewed, like, strided, new, new_by_sizes, grown, shrunk, computed, without_beta, into, asked_for, *COPIES]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    "options",
    [{}, {"statistics": {"summary_mode": "md5"}}, {"task": "tensor"}, {"statistics": {"list": ["Aten."]}}],
    ids=str,
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_equal_runs_are_the_same(tmp_path: Path, program: Callable[[], Any], options: dict[str, str]) -> None:
    for name in ("first", "second"):
        record(tmp_path / name, program, **options)
    result = msprobe.compare(tmp_path / "second", tmp_path / "first")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_leftovers_with_nan_in_both_runs_are_the_same(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, not_a_number in (("first", b"\xff" * 4 + bytes(252)), ("second", bytes(252) + b"\xff" * 4)):
        monkeypatch.setattr(LEFTOVERS, "randbytes", lambda size, content=not_a_number: content)
        record(tmp_path / name, computed, task=task)
    result = msprobe.compare(tmp_path / "second", tmp_path / "first")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.parametrize("program", [viewed, like, strided, new, new_by_sizes, shrunk, copied_deeply, shared])
def test_nobody_has_written_it(tmp_path: Path, program: Callable[[], Any]) -> None:
    (entry, *_) = record(tmp_path, program).values()
    for node in (entry["input_args"][0], *entry["output"][:1]):
        assert (node["Max"], node["Norm"], node["uninitialised"]) == (None, None, True)
        assert node["dtype"] == "torch.float32"


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_are_given_it(tmp_path: Path, level: str) -> None:
    model = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Flatten()])

    def program() -> None:
        model[0](torch.empty(4, 8))
        rows = torch.empty(4, 8)
        for i in range(4):
            rows[i] = 1.0
            model[1](rows)

    for name in ("first", "second"):
        data = record(tmp_path / name, program, model, level=level)
    assert data["Module.0.Identity.forward.0"]["input_args"][0]["uninitialised"]
    norms = [data[f"Module.1.Flatten.forward.{i}"]["input_args"][0]["Norm"] for i in range(4)]
    assert norms[:3] == [None] * 3
    assert norms[3] is not None
    assert msprobe.compare(tmp_path / "second", tmp_path / "first").verdict == "same"


def test_no_file_and_no_checksum(tmp_path: Path) -> None:
    (entry,) = record(tmp_path / "tensor", viewed, task="tensor").values()
    assert "data_name" not in entry["output"][0]
    assert not list(tmp_path.glob("tensor/step0/*/dump_tensor_data/*"))
    (entry,) = record(tmp_path / "md5", viewed, statistics={"summary_mode": "md5"}).values()
    assert entry["output"][0]["md5"] is None


def test_what_is_not_read_is_no_input(tmp_path: Path) -> None:
    data = record(tmp_path, without_beta)
    firsts = [
        entry["input_args"][0] if entry["input_args"] else entry["input_kwargs"]["input"] for entry in data.values()
    ]
    assert len(firsts) == 7
    assert all(node["Max"] is None and node["not_read"] for node in firsts)
    assert all(entry["output"][0]["Max"] is not None for entry in data.values())
    assert data["Torch.baddbmm.0.forward"]["input_args"][0]["shape"] == [2, 3, 5]


def test_out_is_no_input(tmp_path: Path) -> None:
    data = record(tmp_path, into)
    assert data["Torch.add.0.forward"]["input_kwargs"]["out"]["not_read"]
    assert data["Torch.add.0.forward"]["output"][0]["Max"] == 2.0
    assert all(node["not_read"] for node in data["Torch.sort.0.forward"]["input_kwargs"]["out"])


def test_new_with_numbers_copies_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # leftovers would be put over the numbers
    data = record(tmp_path, lambda: (torch.relu(X.new([1.0, 7.0])), torch.relu(X.new(torch.full((2,), 5.0)))))
    assert [data[f"Torch.relu.{i}.forward"]["input_args"][0]["Max"] for i in range(2)] == [7.0, 5.0]


def test_a_beta_that_counts_is_an_input(tmp_path: Path) -> None:
    data = record(tmp_path, lambda: torch.baddbmm(torch.full((2, 3, 5), 7.0), X, Y, beta=0.5))
    assert data["Torch.baddbmm.0.forward"]["input_args"][0]["Max"] == 7.0


def numpy_writes(buffer: torch.Tensor) -> None:
    buffer.numpy()[:] = 2.0


def view_is_written(buffer: torch.Tensor) -> None:
    for row in buffer:
        row.fill_(2.0)


def alias_is_written(buffer: torch.Tensor) -> None:
    buffer.data.copy_(torch.full_like(buffer, 2.0))


def address_is_written(buffer: torch.Tensor) -> None:
    source = torch.full((4, 8), 2.0)
    ctypes.memmove(buffer.data_ptr(), source.data_ptr(), 128)


@pytest.mark.parametrize(
    "write",
    [
        lambda buffer: buffer.fill_(2.0),
        lambda buffer: torch.nn.init.constant_(buffer, 2.0),
        lambda buffer: torch.add(torch.ones(4, 8), 1.0, out=buffer),
        lambda buffer: torch._foreach_copy_([buffer], [torch.full((4, 8), 2.0)]),
        numpy_writes,
        view_is_written,
        alias_is_written,
        address_is_written,
    ],
)
def test_what_is_written_is_recorded(tmp_path: Path, write: Callable[[torch.Tensor], Any]) -> None:
    def program() -> None:
        buffer = torch.empty(4, 8)
        torch.flatten(buffer)
        write(buffer)
        torch.relu(buffer)

    node = record(tmp_path, program)["Torch.relu.0.forward"]["input_args"][0]
    assert (node["Max"], node["Min"], "uninitialised" in node) == (2.0, 2.0, False)


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda buffer: buffer.share_memory_()])
def test_a_copy_knows_which_parts_are_written(tmp_path: Path, copies: Callable[[Any], Any]) -> None:
    def program() -> None:
        buffer = torch.empty(4, 8)
        buffer[:2] = 1.0
        copied = copies(buffer)
        torch.flatten(copied)
        copied[2:] = 2.0
        torch.relu(copied)

    data = record(tmp_path, program)
    assert data["Torch.flatten.0.forward"]["input_args"][0]["uninitialised"]
    assert data["Torch.relu.0.forward"]["input_args"][0]["Max"] == 2.0


def test_a_storage_that_got_other_memory_does_not_hold_the_former(tmp_path: Path) -> None:
    memory = TorchUnwrittenMemory()
    for _ in range(20):
        former = torch.empty(2**24)  # of its own pages, whose address the next request of this size gets
        content, place = former.clone(), former.data_ptr()
        memory.add(former)
        former.untyped_storage().resize_(0)  # its address is free, and the storage lives
        again = content.clone()
        assert not memory.holds(again)
        if again.data_ptr() == place:
            break
    else:
        pytest.fail("no memory was used again")


def test_memory_that_is_used_again_is_not_taken_for_the_former() -> None:
    memory = TorchUnwrittenMemory()
    for _ in range(600):
        memory.add(torch.empty(16))
        assert not memory.holds(torch.zeros(16))


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in (into, asked_for, by_numpy)])
def test_no_overflow_in_a_healthy_run(tmp_path: Path, program: Callable[[], Any]) -> None:
    if program is computed:
        pytest.skip("it computes with what it has not written")
    assert record(tmp_path, program, task="overflow_check") == {}


def test_the_sample_of_a_device_stays_there_and_tells_a_write() -> None:
    """The way of devices, here on the CPU: no GPU is at hand."""
    memory = torch.arange(1000, dtype=torch.int32)
    first = device_sample(memory[3:], 4000)
    assert isinstance(first, torch.Tensor) and first.dtype == torch.uint8 and first.numel() <= 70
    assert is_same_sample(device_sample(memory, 4000), first)
    memory.numpy()[:] = -1  # not counted by torch
    assert not is_same_sample(device_sample(memory, 4000), first)
