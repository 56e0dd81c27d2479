"""What one side alone says, and no value shows, is no silent pass: steps of optimizers, calls for gradients, inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.compare.dumps import call, module, tensor, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings, copy_of


def train(folder: Path, way: str, level: str = "L0") -> None:
    """Record one step of a training: ``twice`` steps more often, ``never`` not at all, ``split`` has two optimizers,
    ``by hand`` and ``kept`` clear no gradients with ``zero_grad``."""
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    groups = [model[0].parameters(), model[2].parameters()] if way == "split" else [model.parameters()]
    optimizers = [torch.optim.SGD(group, lr=0.1) for group in groups]
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    with debugger.collect(model=model):
        for optimizer in optimizers if way not in ("by hand", "kept") else ():
            optimizer.zero_grad()
        for parameter in model.parameters() if way == "by hand" else ():
            parameter.grad = None
        model(torch.ones(3, 4)).square().mean().backward()
        for optimizer in optimizers * {"twice": 2, "never": 0}.get(way, 1):
            optimizer.step()
    forget()


def compared(recordings: Recordings, way: str, other: str = "once", level: str = "L0") -> msprobe.CompareResult:
    return msprobe.compare(recordings(train, way, level), recordings(train, other, level))


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_step_more_is_a_divergence_where_nothing_shows_it(recordings: Recordings, turned: bool) -> None:
    sides = ("once", "twice") if turned else ("twice", "once")
    found = compared(recordings, *sides).summary.first_divergence
    assert found is not None and (found.module, found.slot, found.kind) == ("optimizer", "steps", "argument")
    counts = "1 step in the target, in 2 steps" if turned else "2 steps in the target, in 1 step"
    assert f"optimizers update 0.weight in {counts} in the golden run" in found.reason
    assert "optimizer.step()" in found.source


def test_recorded_calls_show_a_step_more(recordings: Recordings) -> None:
    found = compared(recordings, "twice", level="mix").summary.first_divergence
    assert found is not None and found.slot != "steps"


def test_the_number_of_optimizers_is_no_difference(recordings: Recordings) -> None:
    result = compared(recordings, "split")
    assert result.verdict == "same" and not result.summary.incomplete


@pytest.mark.parametrize(("sides", "side"), [(("never", "once"), "golden run"), (("once", "never"), "target")])
def test_steps_of_one_side_are_not_compared(recordings: Recordings, sides: tuple[str, str], side: str) -> None:
    result = compared(recordings, *sides)
    (text,) = result.summary.incomplete
    assert result.verdict == "same" and f"1 step of SGD is made in the {side} alone" in text and "step()" in text


def test_steps_that_are_recorded_otherwise_say_nothing(recordings: Recordings, tmp_path: Path) -> None:
    target = copy_of(recordings(train, "never", "L0"), tmp_path / "t")
    (document,) = target.rglob("dump.json")
    content = json.loads(document.read_text())
    document.write_text(json.dumps({**content, "written_by": {**content["written_by"], "version": "0.0.1"}}))
    assert msprobe.compare(target, recordings(train, "once", "L0")).summary.incomplete == []


@pytest.mark.parametrize("way", ["by hand", "kept"])
def test_gradients_that_one_side_alone_clears_are_said(recordings: Recordings, way: str) -> None:
    result = compared(recordings, way)
    assert result.verdict == "same" and "`zero_grad` is called in the golden run alone (" in result.summary.reason
    assert compared(recordings, "once", way).summary.reason.count("`zero_grad` is called in the target alone") == 1


def model(**changed: Any) -> dict[str, Any]:
    inner = {**module([tensor(2.0)], [tensor(3.0)]), **changed}
    return {
        "Functional.linear.0.forward": call([tensor(1.0)], [tensor(2.0)]),
        "Module.inner.Linear.forward.0": {name: part for name, part in inner.items() if part is not None},
        "Functional.relu.0.forward": call([tensor(3.0)], [tensor(4.0)]),
    }


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_record_without_its_inputs_is_incomplete(tmp_path: Path, turned: bool) -> None:
    sides = [write(tmp_path / "0", model(input_args=None)), write(tmp_path / "1", model())]
    result = msprobe.compare(*(sides[::-1] if turned else sides))
    side = "golden run" if turned else "target"
    assert result.verdict == "incomplete"
    assert result.summary.incomplete == [
        f"1 call lacks its inputs in the {side}, which the other run has (first: Module.inner.Linear.forward.0)"
    ]


def test_inputs_given_by_name_are_not_lacking(tmp_path: Path) -> None:
    sides = (
        write(tmp_path / "t", model(input_args=[], input_kwargs={"input": tensor(2.0)})),
        write(tmp_path / "g", model()),
    )
    assert msprobe.compare(*sides).verdict == "same"


def test_another_result_is_a_divergence_with_and_without_inputs(tmp_path: Path) -> None:
    sides = write(tmp_path / "t", model(input_args=None, output=[tensor(9.0)])), write(tmp_path / "g", model())
    assert msprobe.compare(*sides).verdict == "diverged"
