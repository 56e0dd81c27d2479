"""bench_path: the calls that differ from a golden dump while the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import ConfigError, FileCheckException, MsprobeException
from tests.adapters.pytorch.networks import Mlp

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


@pytest.mark.matrix("wide", sample="each value")
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
    assert "1 call is not in the golden dump" in said
    assert "nothing of step 1" in said


@pytest.mark.parametrize(("factor", "findings"), [(1.0, False), (1.01, True)])
def test_a_call_of_this_run_alone_is_judged_by_what_follows(
    bench: Any, library: Library, capsys: pytest.CaptureFixture[str], factor: float, findings: bool
) -> None:
    path = golden(bench, library, "md5")
    debugger = bench.open("L1", "tensor", {"summary_mode": "md5", "bench_path": str(path)})
    library.register(debugger)
    debugger.start()
    x = torch.arange(4.0)
    library.owner.same(x)
    library.owner.shift(torch.mul(x, factor))  # the golden run does not multiply
    debugger.stop()
    debugger.step()
    said = capsys.readouterr().out
    assert "0 differ" in said
    assert "1 call is not in the golden dump and not compared (first: Torch.mul.0.forward)" in said
    cause = "Only this run calls Torch.mul.0.forward just before; that code may have made them"
    assert (cause in said) is findings
    assert "do not start from the same data" not in said


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
        process = tmp_path / "two" / "step0" / f"proc{number}"
        process.mkdir(parents=True)
        (process / "dump.json").write_text('{"task": "statistics", "level": "L1", "data": {}}')
    with pytest.raises(MsprobeException, match="several processes"):
        bench.open("L1", "tensor", {"bench_path": str(tmp_path / "two")}).start()
    with pytest.raises(ConfigError, match="bench_path"):
        bench.open("L1", "diff_check")


MD5 = ("md5", "md5")


def of_a_training_step(
    bench: Any,
    level: str,
    modes: tuple[str, str],
    spoil: Callable[[Mlp], object],
    backward: bool = True,
    steps: int = 1,
) -> None:
    """The same training twice, the second time spoilt and held against the first.

    ``modes`` are the summary modes of the first and of the second run.
    """

    def train(path: Path, task: str, section: dict[str, Any]) -> None:
        torch.manual_seed(0)
        model = Mlp()
        if task == "tensor":
            spoil(model)
        bench.root = path
        debugger = bench.open(level, task, section)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            debugger.start(model)
            result = model(torch.arange(8.0).reshape(2, 4)).square().sum()
            if backward:
                optimizer.zero_grad()
                result.backward()
                optimizer.step()
            debugger.stop()
            debugger.step()

    root = bench.root
    train(root.with_name("good"), "statistics", {"summary_mode": modes[0]})
    train(root, "tensor", {"summary_mode": modes[1], "bench_path": str(root.with_name("good")), "diff_nums": -1})


def guilty(bench: Any, step: int = 0) -> list[str]:
    """The entries that have tensor files."""
    data = bench.read(step).data
    return [name for name, body in data.items() if any("data_name" in node for node in nodes(body))]


def double_first_weight(model: Mlp) -> None:
    with torch.no_grad():
        model.fc1.weight.mul_(2)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("backward", [False, True], ids=["forward only", "with backward"])
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_wrong_weight_is_found_where_it_is(bench: Any, level: str, backward: bool) -> None:
    of_a_training_step(bench, level, MD5, double_first_weight, backward)
    found = guilty(bench)
    assert found == ["Module.fc1.Linear.forward.0"]
    assert "Module.fc1.Linear.forward.0.parameters.weight.pt" in bench.read().files()


def test_what_follows_from_a_wrong_weight_is_not_judged(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    of_a_training_step(bench, "L1", MD5, double_first_weight)
    assert guilty(bench) == []
    said = capsys.readouterr().out
    assert "Functional.linear.0.forward was given other values than in the golden run" in said
    assert "0 calls compared with the golden dump, 0 differ; " in said
    assert "cannot be judged, as what they started from differs already (first: Functional.linear.0.forward" in said


def test_weights_that_an_optimizer_has_made_differ_are_no_findings(bench: Any) -> None:
    of_a_training_step(bench, "L0", MD5, double_first_weight, steps=2)
    assert guilty(bench, 1) == []


def test_a_weight_that_goes_wrong_between_two_equal_steps_is_found(bench: Any) -> None:
    def spoil(model: Mlp) -> None:
        def shift(bias: torch.Tensor) -> None:
            bias.data.add_(0.5)  # beside the optimizer

        model.fc2.bias.register_post_accumulate_grad_hook(shift)

    of_a_training_step(bench, "L0", MD5, spoil, steps=2)
    assert guilty(bench, 0) == []
    assert guilty(bench, 1)[0] == "Module.fc2.Linear.forward.0"


def test_no_backward_is_blamed_for_what_its_forward_saved(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def spoil(model: Mlp) -> None:
        model.act.register_forward_pre_hook(lambda module, args: (args[0] + 0.5,))

    of_a_training_step(bench, "L1", MD5, spoil)
    assert guilty(bench) == []
    assert "cannot be judged" in capsys.readouterr().out


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_wrong_gradient_of_a_parameter_is_found(bench: Any, level: str) -> None:
    of_a_training_step(bench, level, MD5, lambda model: model.fc1.weight.register_hook(lambda grad: grad * 2))
    assert guilty(bench) == ["Module.fc1.Linear.parameters_grad.0"]


@pytest.mark.parametrize(
    ("here", "golden_mode"), [("xor", "md5"), ("md5", "xor"), ("xor", "statistics"), ("statistics", "xor")]
)
def test_checksums_of_different_kinds_are_refused(bench: Any, here: str, golden_mode: str) -> None:
    with pytest.raises(MsprobeException, match="give both runs the same summary_mode"):
        of_a_training_step(bench, "mix", (golden_mode, here), lambda model: None)


@pytest.mark.parametrize(("here", "golden_mode"), [("md5", "statistics"), ("statistics", "md5"), ("xor", "xor")])
def test_what_both_runs_have_is_compared(
    bench: Any, here: str, golden_mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_a_training_step(bench, "mix", (golden_mode, here), lambda model: None, steps=2)
    assert guilty(bench, 0) == guilty(bench, 1) == []
    assert "cannot be judged" not in capsys.readouterr().out


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every tensor node below ``value``."""
    if isinstance(value, list):
        return [node for part in value for node in nodes(part)]
    if isinstance(value, dict):
        return [value] if "shape" in value else [node for part in value.values() for node in nodes(part)]
    return []
