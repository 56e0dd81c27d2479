"""Calls that are run again: an error of a checker never reaches the program, and is no lost result."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.tasks.checked_calls import Checked, checked_inside
from msprobe.online.free_benchmark import FreeBenchmark
from tests.adapters.bench import Bench

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("method", ["begin", "replaced", "end"])
def test_an_error_of_a_checker_stays_inside(method: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault of the checker")

    monkeypatch.setattr(FreeBenchmark, method, broken)
    bench = Bench(tmp_path / "dump", "msprobe.pytorch")
    with bench.open("L1", "free_benchmark", {}).collect():
        assert torch.exp(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert "a fault of the checker" in (bench.read().folder / "dump_error_info.log").read_text(encoding="utf-8")
    bench.close()


@pytest.mark.parametrize("mode", ["check", "fix"])
def test_an_error_of_the_program_reaches_it_once(mode: str, tmp_path: Any) -> None:
    calls = []

    class Library:
        @staticmethod
        def fails(values: torch.Tensor) -> torch.Tensor:
            calls.append(values.dtype)
            raise ValueError("of the program")

    bench = Bench(tmp_path / "dump", "msprobe.pytorch")
    debugger = bench.open("L1", "free_benchmark", {"handler_type": mode})
    debugger.register_custom_api(Library, "fails", "Library")
    with pytest.raises(ValueError, match="of the program"), debugger.collect():
        Library.fails(torch.zeros(2))
    assert calls.count(torch.float32) == 1
    bench.close()


def test_a_check_is_for_its_own_function_only() -> None:
    thread, own, other = ThreadState(), CallSite("Torch", "exp"), CallSite("Torch", "sin")

    class Live:
        site = own

        def run(self, function: Any, args: Any, kwargs: Any) -> str:
            return f"checked {function(*args)}"

    make = checked_inside(lambda site, original: original, thread)
    exp, sin = make(own, lambda value: f"exp {value}"), make(other, lambda value: f"sin {value}")
    thread.live = Live()
    assert sin(1) == "sin 1"  # and the check is gone
    assert exp(1) == "exp 1"
    thread.live = Live()
    assert exp(1) == "checked exp 1"
    assert exp(1) == "exp 1"
    assert Checked().finding == ""
