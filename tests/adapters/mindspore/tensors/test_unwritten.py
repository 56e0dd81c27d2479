"""Memory of MindSpore that nobody has written has no values, and two equal runs agree; faults are found beside it."""

from __future__ import annotations

import ctypes
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

import msprobe
from msprobe.adapters.mindspore.tensors.unwritten import MindSporeUnwrittenMemory
from msprobe.adapters.mindspore.versions import number
from msprobe.core.capture import unwritten
from tests.fresh_debugger import forget

pytestmark = pytest.mark.skipif(number() < (2, 8), reason="MindSpore before 2.8 tells no address of a view")

LEFTOVERS = random.Random(os.urandom(8))
X = Tensor(np.ones((4, 8), np.float32))
EVEN = Tensor(np.arange(48).reshape(6, 8) % 2 == 0)
ROW = Tensor(np.arange(8, dtype=np.float32))
OPTIONS = [{}, {"statistics": {"summary_mode": "md5"}}, {"task": "tensor"}]


def left_over(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``make`` with other random bytes in the memory that it returns, each time."""

    def made(*args: Any, **kwargs: Any) -> Any:
        tensor = make(*args, **kwargs)
        ctypes.memmove(tensor._data_ptr(), LEFTOVERS.randbytes(tensor.nbytes), tensor.nbytes)
        return tensor

    return made


@pytest.fixture(autouse=True)
def _leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    mindspore.runtime.launch_blocking()
    for owner, name in ((mint, "empty"), (mint, "empty_like"), (Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, left_over(getattr(owner, name)))


def record(folder: Path, program: Callable[[], Any], model: Any = None, **options: Any) -> dict[str, Any]:
    forget("msprobe.mindspore")
    from msprobe.mindspore import PrecisionDebugger

    probe = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "statistics", **options})
    probe.start(model)
    program()
    probe.stop()
    probe.step()
    forget("msprobe.mindspore")
    (path,) = folder.glob("step0/*/dump.json")
    data: dict[str, Any] = json.loads(path.read_text())["data"]
    return data


def viewed() -> None:
    mint.narrow(mint.empty(4, 8), 0, 1, 2)


def like() -> None:
    mint.flatten(mint.empty_like(X))


def new() -> None:
    mint.flatten(X.new_empty((5, 2)))


def computed() -> None:
    mint.exp(mint.exp(mint.empty(64)))


def rows(fault: float = 1.0) -> None:
    out = mint.empty(6, 8)
    for i in range(6):
        out[i] = mint.mul(ROW, i * fault)
    mint.flatten(out)


def cache(fault: float = 1.0) -> None:
    keys = mint.empty(6, 8)
    for i in range(3):
        keys[2 * i : 2 * i + 2] = mint.mul(ROW, fault)
        mint.flatten(keys.narrow(0, 0, 2 * i + 2))


def masked(fault: float = 1.0) -> None:
    """A write by a mask replaces the memory by a copy."""
    out = mint.empty(6, 8)
    out[EVEN] = 1.0
    mint.flatten(out)
    out[ops.logical_not(EVEN)] = mint.mul(mint.ones(24), fault)
    mint.flatten(out)


def through_views(fault: float = 1.0) -> None:
    out = mint.empty(6, 8)
    for i in range(3):
        out.view(3, 2, 8)[i, :, :4] = mint.mul(mint.ones((2, 4)), fault)
        out.view(3, 2, 8)[i, :, 4:] = 0.0
        mint.flatten(out.narrow(0, 0, 2 * i + 2))
    mint.flatten(out)


PARTS = [rows, cache, masked, through_views]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("program", [viewed, like, new, computed, *PARTS])
def test_two_equal_runs_are_the_same(tmp_path: Path, program: Callable[[], Any], options: dict[str, Any]) -> None:
    for name in ("first", "second"):
        record(tmp_path / name, program, **options)
    result = msprobe.compare(tmp_path / "second", tmp_path / "first")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("program", PARTS)
def test_a_fault_in_what_is_written_is_found(tmp_path: Path, program: Callable[[float], Any], task: str) -> None:
    record(tmp_path / "golden", lambda: program(1.0), task=task)
    record(tmp_path / "fault", lambda: program(1.5), task=task)
    result = msprobe.compare(tmp_path / "fault", tmp_path / "golden")
    assert result.summary.first_divergence is not None
    assert (result.verdict, result.summary.first_divergence.target[:9]) == ("diverged", "Mint.mul.")


@pytest.mark.parametrize("program", [viewed, like, new])
def test_nobody_has_written_it(tmp_path: Path, program: Callable[[], Any]) -> None:
    (entry, *_) = record(tmp_path, program).values()
    for node in (entry["input_args"][0], entry["output"][0]):
        assert (node["Max"], node["Norm"], node["uninitialised"], node["dtype"]) == (None, None, True, "Float32")


@pytest.mark.parametrize("program", PARTS)
def test_what_is_written_has_values_and_the_rest_has_none(tmp_path: Path, program: Callable[[], Any]) -> None:
    data = record(tmp_path, program)
    nodes = [entry["input_args"][0] for name, entry in data.items() if name.startswith("Mint.flatten.")]
    assert nodes[-1]["Norm"] is not None and nodes[-1]["shape"] == [6, 8]
    entries = data.values()
    unwritten = [node for entry in entries for node in entry["input_args"] if "uninitialised" in node]
    assert unwritten or program is rows
    assert all(node["Norm"] is None for node in unwritten)


def test_no_file_and_no_checksum(tmp_path: Path) -> None:
    (entry,) = record(tmp_path / "tensor", viewed, task="tensor").values()
    assert "data_name" not in entry["output"][0]
    assert not list(tmp_path.glob("tensor/step0/*/dump_tensor_data/*"))
    (entry,) = record(tmp_path / "md5", viewed, statistics={"summary_mode": "md5"}).values()
    assert entry["output"][0]["md5"] is None


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_are_given_it(tmp_path: Path, level: str) -> None:
    model = nn.CellList([nn.Identity(), nn.Flatten()])

    def program() -> None:
        model[0](mint.empty(4, 8))
        rows = mint.empty(4, 8)
        for i in range(4):
            rows[i] = 1.0
            model[1](rows)
        zeros = mint.empty(4, 8)
        zeros.copy_(mint.zeros((4, 8)))
        model[1](zeros)

    for name in ("first", "second"):
        data = record(tmp_path / name, program, model, level=level)
    assert data["Cell.0.Identity.forward.0"]["input_args"][0]["uninitialised"]
    norms = [data[f"Cell.1.Flatten.forward.{i}"]["input_args"][0]["Norm"] for i in range(5)]
    assert norms[:3] == [None] * 3
    assert None not in norms[3:]
    assert msprobe.compare(tmp_path / "second", tmp_path / "first").verdict == "same"


def test_no_overflow_in_a_healthy_run(tmp_path: Path) -> None:
    for place, program in enumerate((viewed, like, new, *PARTS)):
        assert record(tmp_path / str(place), program, task="overflow_check") == {}


def numpy_writes(buffer: Any) -> None:
    buffer.asnumpy()[:] = 2.0


def address_is_written(buffer: Any) -> None:
    source = np.full((4, 8), 2.0, np.float32)
    ctypes.memmove(buffer._data_ptr(), source.ctypes.data, 128)


def view_is_written(buffer: Any) -> None:
    for i in range(4):
        buffer.narrow(0, i, 1)[0] = 2.0


def assigned(buffer: Any) -> None:
    ops.assign(buffer, Tensor(np.full((4, 8), 2.0, np.float32)))


def by_a_primitive(buffer: Any) -> None:
    ops.Assign()(buffer, Tensor(np.full((4, 8), 2.0, np.float32)))


def copied(buffer: Any) -> None:
    buffer.copy_(Tensor(np.full((4, 8), 2.0, np.float32)))


@pytest.mark.parametrize("write", [numpy_writes, address_is_written, view_is_written, assigned, by_a_primitive, copied])
def test_what_is_written_is_recorded(tmp_path: Path, write: Callable[[Any], Any]) -> None:
    def program() -> None:
        buffer = mint.empty(4, 8)
        mint.flatten(buffer)
        write(buffer)
        mint.exp(buffer)

    node = record(tmp_path, program)["Mint.exp.0.forward"]["input_args"][0]
    assert (node["Max"], node["Min"], "uninitialised" in node) == (2.0, 2.0, False)


@pytest.mark.parametrize("write", ["copy_", "assign", "__setitem__"])
def test_zeros_over_zeros_are_written(tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bytes stay as they were, only the function that writes tells of it."""
    monkeypatch.setattr(LEFTOVERS, "randbytes", bytes)

    def program() -> None:
        buffer, zeros = mint.empty(4, 8), mint.zeros((4, 8))
        if write == "assign":
            ops.assign(buffer, zeros)
        else:
            getattr(buffer, write)(*([slice(None)] if write == "__setitem__" else []), zeros)
        mint.exp(buffer)

    assert record(tmp_path, program)["Mint.exp.0.forward"]["input_args"][0]["Max"] == 0.0


def test_memory_that_is_used_again_is_not_taken_for_the_former() -> None:
    memory = MindSporeUnwrittenMemory()
    for turn in range(300):
        former = mint.empty(250_007 + turn)  # of a size that no other memory has that is free
        content, address = former.asnumpy().copy(), former._data_ptr()
        memory.add(former)
        del former
        again = Tensor(content) + 0  # the same bytes, often at the same address
        assert not memory.holds(again)
        if again._data_ptr() == address:
            break
    else:
        pytest.fail("no memory was used again")


def test_a_view_of_what_lives_no_more_is_known() -> None:
    memory, base = MindSporeUnwrittenMemory(), mint.empty(4, 8)
    memory.add(base)
    view = base.narrow(0, 1, 2)
    assert memory.holds(view)  # a record of the call that made it asks so
    del base
    assert memory.holds(view) and memory.holds(view.narrow(0, 0, 1))


def test_while_no_memory_is_known_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError

    for name in ("base", "size", "holds", "begin_write"):
        monkeypatch.setattr(MindSporeUnwrittenMemory, name, fail)

    def program() -> None:
        out = mint.zeros((4, 8))
        out[0] = 1.0
        out += 1.0
        mint.exp(out)

    assert len(record(tmp_path, program)) == 3


CALLS: dict[str, tuple[Any, ...]] = {
    "__setitem__": (slice(0, 2), 1.0),
    "index_put_": (([1], [2]), 1.0),
    "index_copy_": (1, [3], np.ones((6, 1), np.float32)),
    "index_fill_": (0, [3, 1], 1.0),
    "masked_fill_": (np.arange(8) % 3 == 0, 1.0),
    "masked_scatter_": (np.arange(48).reshape(6, 8) % 2 == 0, np.ones(24, np.float32)),
    "scatter_": (0, [[0, 3, 5, 1, 2, 2, 2, 4]], 1.0),
}


@pytest.mark.torch
@pytest.mark.parametrize("api", sorted(CALLS))
def test_every_writer_marks_what_torch_writes(api: str) -> None:
    """Most of these functions have no kernel on a CPU in MindSpore; what they write is what torch writes."""
    import torch

    def convert(values: Any, make: Callable[[Any], Any]) -> Any:
        if isinstance(values, tuple):
            return tuple(convert(value, make) for value in values)
        return make(values) if isinstance(values, (list, np.ndarray)) else values

    written = torch.full((6, 8), -1.0)
    given = convert(CALLS[api], torch.tensor)
    given = (given[0], torch.tensor(1.0)) if api == "index_put_" else given
    getattr(torch.Tensor, api)(written, *given)
    out, memory = Tensor(np.full((6, 8), -1.0, np.float32)), MindSporeUnwrittenMemory()
    memory.add(out)
    known = memory.begin_write(api, out)
    assert known is not None
    memory.end_write(known, api, (out, *convert(CALLS[api], Tensor)), {})
    assert memory.known
    expected = (written == -1.0).numpy()
    holds = [[memory.holds(out.narrow(0, i, 1).narrow(1, j, 1)) for j in range(8)] for i in range(6)]
    assert np.array_equal(holds, expected)


def test_of_large_memory_no_flags_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msprobe.adapters.mindspore.tensors.unwritten.LARGEST", 47)

    def program() -> None:
        out = mint.empty(6, 8)
        out[0] = 1.0
        mint.exp(out)

    assert "uninitialised" not in record(tmp_path, program)["Mint.exp.0.forward"]["input_args"][0]


def test_many_views_do_not_pile_up() -> None:
    memory, base = MindSporeUnwrittenMemory(), mint.empty(4, 8)
    memory.add(base)
    for _ in range(500):
        assert memory.holds(base.narrow(0, 1, 2))
    (known,) = memory.known.values()
    assert len(known.lifetime._tensors) < 2 * unwritten._PURGE


def test_a_jit_function_is_compiled_without_the_wrappers(tmp_path: Path) -> None:
    model = nn.CellList([nn.Identity()])

    @mindspore.jit
    def twice(x: Any) -> Any:
        return ops.mul(x, 2.0)

    data = record(tmp_path, lambda: model[0](twice(X)), model, level="L0")
    assert data["Cell.0.Identity.forward.0"]["input_args"][0]["Max"] == 2.0
