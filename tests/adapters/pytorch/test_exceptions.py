"""Calls that raise, and values that are odd: the rest of the step is recorded as if nothing had happened."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.adapters.pytorch.networks import Fragile, Nested

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 4)


def test_a_call_that_raises_leaves_its_inputs_and_the_error(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    with pytest.raises(RuntimeError, match=r"mat1 and mat2|shapes|size"):
        F.linear(torch.ones(2, 3), torch.ones(5, 4))
    F.gelu(X)
    debugger.stop()
    data = bench.read().data
    assert list(data) == ["Functional.linear.0.forward", "Functional.gelu.0.forward"]
    failed = data["Functional.linear.0.forward"]
    assert list(failed) == ["input_args", "input_kwargs", "error"]
    assert failed["error"].startswith("RuntimeError: ")
    assert failed["input_args"][0]["shape"] == [2, 3]


def test_a_module_that_raises_does_not_adopt_the_next_ones(bench: Any) -> None:
    debugger = bench.open("mix")
    model = Nested(Fragile())
    debugger.start(model=model)
    model(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    tree = recorded.construct or {}
    assert recorded.data["Module.inner.narrow.Linear.forward.0"]["error"].startswith("RuntimeError")
    assert tree["Functional.linear.0.forward"] == "Module.inner.narrow.Linear.forward.0"
    assert tree["Functional.gelu.0.forward"] == "Module.inner.Fragile.forward.0"
    assert tree["Module.inner.wide.Linear.forward.0"] == "Module.inner.Fragile.forward.0"
    assert "output" in recorded.data["Module.inner.wide.Linear.forward.0"]
    assert "Module.inner.wide.Linear.backward.0" in recorded.data


def test_a_user_exception_reaches_the_user_unchanged(bench: Any) -> None:
    class Mine(Exception):
        pass

    class Space:
        @staticmethod
        def compute() -> None:
            raise Mine("exactly this")

    debugger = bench.open()
    debugger.register_custom_api(Space, "compute")
    debugger.start()
    with pytest.raises(Mine, match=r"^exactly this$"):
        Space.compute()
    debugger.stop()
    assert bench.read().data["Space.compute.0.forward"]["error"] == "Mine: exactly this"


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: Any = None


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __len__(self) -> int:
        raise ValueError("len")

    def __iter__(self) -> Any:
        raise ValueError("iter")

    def __repr__(self) -> str:
        raise ValueError("repr")


def cyclic() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


ODD = {
    "complex": np.complex64(1j),
    "tuple keys": {(1, 2): X},
    "dataclass class": Pair,
    "dataclass": Pair(X, {"deep": [X]}),
    "cycle": cyclic(),
    "hostile": Hostile(),
    "set": {1, 2},
    "bytes": b"\xff",
    "surrogate": "\ud800",
    "huge int": 10**400,
    "generator": (i for i in range(3)),
    "function": len,
    "object array": np.array([object()], dtype=object),
    "uint16": torch.ones(2, dtype=torch.uint16),
    "uint64": torch.ones(2, dtype=torch.uint64),
    "float8": torch.ones(2).to(torch.float8_e4m3fn),
    "complex tensor": torch.ones(2, dtype=torch.complex64),
    "complex scalar": torch.tensor(1 + 2j),
    "empty": torch.empty(0, 3),
    "meta": torch.empty(2, device="meta"),
    "sparse": torch.eye(3).to_sparse(),
    "conjugated": torch.ones(2, dtype=torch.complex64).conj(),
    "expanded": torch.ones(1).expand(5),
    "nan": torch.tensor([float("nan"), float("inf")]),
}


class Space:
    @staticmethod
    def take(*args: Any, **kwargs: Any) -> None:
        """Accepts anything."""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("summary_mode", ["statistics", "md5", "xor"])
def test_odd_values_never_cost_more_than_themselves(bench: Any, task: str, summary_mode: str) -> None:
    debugger = bench.open("L1", task, {"summary_mode": summary_mode})
    debugger.register_custom_api(Space, "take")
    debugger.start()
    for value in ODD.values():
        Space.take(value, key=value)
    F.relu(X)
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    assert recorded.names() == [*(f"Space.take.{n}.forward" for n in range(len(ODD))), "Functional.relu.0.forward"]
    for number, name in enumerate(ODD):
        assert list(recorded.data[f"Space.take.{number}.forward"]) == ["input_args", "input_kwargs", "output"], name
    assert not (recorded.folder / "dump_error_info.log").exists()


def test_functions_inside_vmap_do_not_raise(bench: Any) -> None:
    debugger = bench.open("L1", "tensor")
    debugger.start()
    result = torch.vmap(lambda row: F.relu(row) + 1)(torch.ones(3, 2))
    debugger.stop()
    assert result.tolist() == [[2.0, 2.0]] * 3
    assert "Functional.relu.0.forward" in bench.read().data
    assert not (bench.read().folder / "dump_error_info.log").exists()


def test_an_unwritable_folder_ends_recording_and_not_the_run(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.root.parent.mkdir(exist_ok=True)
    bench.root.write_text("a file where the folder should be")
    debugger = bench.open("L1", "tensor")
    debugger.start()
    result = F.relu(X)
    with contextlib.ExitStack() as stack:
        stack.callback(debugger.step)
        debugger.stop()
    assert torch.equal(result, X.clamp(min=0))
    errors = [line for line in capsys.readouterr().out.splitlines() if "ERROR" in line]
    assert len(errors) == 1, errors
    assert "training goes on" in errors[0]
