"""bench_path: the calls that differ from a golden dump while the run goes on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import ConfigError, FileCheckException, MsprobeException

pytestmark = pytest.mark.torch


class Library:
    """Functions of a user; ``error`` is what one of them does wrong."""

    def __init__(self) -> None:
        self.error = 0.0
        self.owner = SimpleNamespace(__name__="lib", shift=self._shift, pair=self._pair, same=lambda x: x * 2)

    def register(self, debugger: Any) -> None:
        for name in ("shift", "pair", "same"):
            debugger.register_custom_api(self.owner, name, "Lib")

    def _shift(self, x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
        return x + by + self.error

    def _pair(self, x: torch.Tensor, *, other: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        return {"values": [x, other + self.error]}

    def run(self, debugger: Any) -> None:
        debugger.start()
        x = torch.arange(4.0)
        self.owner.same(x)
        y = self.owner.shift(x)
        F.relu(y)
        self.owner.pair(x, other=x * 3)
        self.owner.shift(x, by=2.0)
        debugger.stop()
        debugger.step()


@pytest.fixture
def library() -> Library:
    return Library()


def golden(bench: Any, library: Library, mode: str) -> Path:
    bench.root = bench.root.with_name("golden")
    debugger = bench.open("L1", "statistics", {"summary_mode": mode})
    library.register(debugger)
    library.run(debugger)
    bench.root = bench.root.with_name("dump")
    found: Path = bench.root.with_name("golden")
    return found


def compare(bench: Any, library: Library, path: Path, mode: str = "md5", limit: int = -1, task: str = "tensor") -> Any:
    section = {"summary_mode": mode, "bench_path": str(path), "diff_nums": limit}
    debugger = bench.open("L1", task, section)
    library.register(debugger)
    library.run(debugger)
    return debugger


DIFFERING = ["Lib.shift.0.forward", "Lib.pair.0.forward", "Lib.shift.1.forward"]


@pytest.mark.parametrize("task", ["tensor", "diff_check"])
@pytest.mark.parametrize("mode", ["statistics", "md5", "xor"])
def test_the_calls_that_went_wrong_are_found_and_saved(bench: Any, library: Library, mode: str, task: str) -> None:
    path = golden(bench, library, mode)
    library.error = 1e-2
    compare(bench, library, path, mode, task=task)
    recorded = bench.read()
    assert len(recorded.names()) == 6
    assert {name.rsplit(".forward")[0] + ".forward" for name in recorded.files()} == set(DIFFERING)
    named = [node["data_name"] for node in nodes(recorded.data) if "data_name" in node]
    assert sorted(named) == recorded.files()
    assert "Lib.pair.0.forward.kwargs.other.pt" in recorded.files()
    assert "Lib.pair.0.forward.output.0.values.1.pt" in recorded.files()


def test_an_equal_run_saves_nothing(bench: Any, library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    compare(bench, library, golden(bench, library, "statistics"), "statistics")
    assert bench.read().files() == []
    assert "6 calls compared with the golden dump, 0 differ" in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "seen"), [(1, 2), (2, 5)])
def test_it_ends_after_the_number_of_differences_asked_for(bench: Any, library: Library, limit: int, seen: int) -> None:
    path = golden(bench, library, "md5")
    library.error = 1e-2
    debugger = compare(bench, library, path, limit=limit)
    assert len(bench.read().names()) == seen
    library.run(debugger)
    assert bench.steps() == ["step0"]


def test_calls_the_golden_run_does_not_have_are_counted_not_passed(
    bench: Any, library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden(bench, library, "md5")
    debugger = bench.open("L1", "tensor", {"summary_mode": "md5", "bench_path": str(path)})
    debugger.start()
    F.gelu(torch.ones(2))
    debugger.stop()
    debugger.step()
    debugger.start()  # a step the golden run does not have at all
    debugger.stop()
    said = capsys.readouterr().out
    assert "1 calls are not in the golden dump" in said
    assert "nothing of step 1" in said


def test_another_shape_is_a_difference(bench: Any, library: Library) -> None:
    path = golden(bench, library, "statistics")
    library.owner.same = lambda x: (x * 2)[:2]
    compare(bench, library, path, "statistics")
    assert {name.split(".forward")[0] for name in bench.read().files()} == {"Lib.same.0"}


def test_a_golden_dump_that_cannot_serve_is_named(bench: Any, library: Library, tmp_path: Path) -> None:
    with pytest.raises(FileCheckException, match="bench_path") as error:
        bench.open("L1", "tensor", {"bench_path": str(tmp_path / "nothing")})
    assert error.value.code == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(MsprobeException, match="nothing of step 0"):
        bench.open("L1", "tensor", {"bench_path": str(tmp_path / "empty")}).start()
    for number in (1, 2):
        (tmp_path / "two" / "step0" / f"proc{number}").mkdir(parents=True)
    with pytest.raises(MsprobeException, match="several processes"):
        bench.open("L1", "tensor", {"bench_path": str(tmp_path / "two")}).start()
    with pytest.raises(ConfigError, match="bench_path"):
        bench.open("L1", "diff_check")


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every tensor node below ``value``."""
    if isinstance(value, list):
        return [node for part in value for node in nodes(part)]
    if isinstance(value, dict):
        return [value] if "shape" in value else [node for part in value.values() for node in nodes(part)]
    return []
