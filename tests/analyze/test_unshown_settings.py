"""Settings of an optimizer that differ in a step whose values show nothing of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from tests.compare.dumps import module, number, tensor, write

MODEL = "Module.layer.Linear.forward.0"
STACK = ["File train.py, line 12, in train, \n optimizer.step()"]


def step(parameter: str = "layer.weight", kind: str = "SGD", **settings: Any) -> dict[str, Any]:
    group = {"parameters": [parameter], "lr": 0.1, **settings}
    return {"optimizer": 0, "class": kind, "stack": STACK, "groups": [group]}


def run(folder: Path, *steps: dict[str, Any], optimizer_call: bool = False) -> Path:
    data: dict[str, Any] = {MODEL: module([tensor()], [tensor()], weight=tensor())}
    call = "Tensor.add_.0.forward"
    if optimizer_call:
        data[call] = module([tensor(), number(2)], [tensor()])
    construct = {MODEL: None} | ({call: "optimizer"} if optimizer_call else {})
    document = write(folder / "step0" / "rank0", data, construct) / "dump.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "level": "L0", "optimizers": steps}))
    return folder


def test_another_learning_rate_is_a_divergence_where_nothing_else_shows_it(tmp_path: Path) -> None:
    folders = run(tmp_path / "t", step(lr=0.2)), run(tmp_path / "g", step())
    result = msprobe.compare(*folders)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    assert (found.module, found.kind, found.step) == ("optimizer", "argument", 0)
    assert "the learning rate of SGD is 0.2 in the target, 0.1 in the golden run" in found.reason
    assert "train.py:12" in found.source
    assert diff_analyze(*folders, tmp_path / "out").verdict == "diverged"


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ([step()], [step()]),
        ([step(foreach=True)], [step(foreach=False)]),
        ([step(name="decayed")], [step(name="all")]),
        ([step(lr=0.2, kind="Own")], [step()]),
        ([step(lr=0.2, parameter="other.weight")], [step()]),
        ([step(lr=0.2)], []),
    ],
    ids=["equal", "how it is computed", "a name", "another class", "another parameter", "not recorded"],
)
def test_what_is_no_other_number_of_one_optimizer_is_none(tmp_path: Path, target: Any, golden: Any) -> None:
    assert msprobe.compare(run(tmp_path / "t", *target), run(tmp_path / "g", *golden)).verdict == "same"


def test_recorded_calls_decide_instead(tmp_path: Path) -> None:
    sides = (run(tmp_path / side, step(lr=lr), optimizer_call=True) for side, lr in (("t", 0.2), ("g", 0.1)))
    assert msprobe.compare(*sides).verdict == "same"


def test_another_setting_can_be_accepted(tmp_path: Path) -> None:
    accepted = [{"finding": "argument", "place": "optimizer", "slot": "lr", "reason": "a schedule"}]
    folders = run(tmp_path / "t", step(lr=0.2)), run(tmp_path / "g", step())
    assert msprobe.compare(*folders, accept=accepted).verdict == "same"
