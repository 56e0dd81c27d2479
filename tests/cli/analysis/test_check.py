"""The command: its lines, its document, accepted findings, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from msprobe.cli.main import run
from tests.rules.tree import ROOT

STACK = ["File /somewhere/train.py, line 7, in train, \n optimizer.step()"]


def dump(folder: Path, step: int, kept: bool, **header: Any) -> None:
    tensor = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        "Max": 1.0,
        "Min": 0.5,
        "Mean": 0.7,
        "Norm": 1.1,
    }
    value = {**tensor, "Norm": 1.1 + step, "requires_grad": True}
    calls = [{"call": "backward", "after": 1}]
    if kept:
        calls.append({"call": "kept_gradients", "after": 1, "optimizer": 0, "count": 1, "parameters": ["fc.weight"]})
    gradients = [{"name": "fc.weight", "value": tensor}]
    calls.append({"call": "optimizer_step", "after": 1, "optimizer": 0, "gradients": gradients, "no_gradient": []})
    document = {
        "task": "statistics",
        "level": "mix",
        "framework": "pytorch",
        "optimizers": [
            {"optimizer": 0, "class": "SGD", "stack": STACK, "groups": [{"lr": 0.1, "parameters": ["fc.weight"]}]}
        ],
        "training_calls": calls,
        "model_parameters": [{"name": "fc.weight", "value": value, "has_gradient": True}],
        "data": {"Module.fc.Linear.forward.0": {"input_args": [], "output": [tensor], "training": True}},
        **header,
    }
    place = folder / f"step{step}" / "rank0"
    place.mkdir(parents=True)
    (place / "dump.json").write_text(json.dumps(document))


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    for step in range(3):
        dump(tmp_path / "dump", step, kept=step > 0)
    return tmp_path / "dump"


def test_the_first_finding_is_told_with_its_line(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(wrong)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 finding: 3 steps of 1 rank checked by ")
    assert lines[1] == "1. gradients_not_cleared (certain): fc.weight, Module.fc.Linear.forward.0, step 1, rank 0"
    assert lines[3] == "   source: /somewhere/train.py:7 in train: optimizer.step()"
    assert any(line.startswith("Not judged, there is one rank only: replicas_apart") for line in lines)


def test_the_document_follows_its_schema(wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(wrong), "--json", str(tmp_path / "out" / "found.json"), "--fail-on", "found"]) == 1
    capsys.readouterr()
    document = json.loads((tmp_path / "out" / "found.json").read_text())
    jsonschema.validate(document, json.loads((ROOT / "schemas" / "check.schema.json").read_text()))
    (finding,) = document["findings"]
    assert (finding["rule"], finding["step"], finding["rank"]) == ("gradients_not_cleared", 1, 0)
    assert (finding["module"], finding["parameter"], finding["stack"]) == ("fc", "fc.weight", STACK)
    assert document["hints"] == []
    assert run(["check", str(wrong), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_a_finding_is_accepted_with_a_reason(wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepted = tmp_path / "known.yaml"
    accepted.write_text(
        "- finding: gradients_not_cleared\n  place: fc.*\n  reason: momentum by hand\n"
        "- finding: non_finite\n  place: fc\n  reason: never seen\n"
    )
    assert run(["check", str(wrong), "--accept", str(accepted), "--fail-on", "found"]) == 0
    out = capsys.readouterr().out
    assert "Accepted: gradients_not_cleared at fc.weight, Module.fc.Linear.forward.0 (momentum by hand)" in out
    assert "An accepted finding was not found: non_finite at fc" in out


def test_wrong_input_is_one_line(wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = tmp_path / "unknown.yaml"
    unknown.write_text("- finding: no_such_rule\n  place: fc\n  reason: why\n")
    for arguments, said in (
        ([str(tmp_path / "nowhere")], "no such file or folder"),
        ([str(wrong), "--accept", str(unknown)], "there is no finding 'no_such_rule'"),
        ([str(wrong), "--json", str(tmp_path)], "a folder is there"),
        ([str(wrong), "--executor", "magic"], "known executors"),
    ):
        assert run(["check", *arguments]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert len(error.strip().splitlines()) == 1


def test_nothing_to_check_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "step0" / "rank0"
    place.mkdir(parents=True)
    (place / "dump.json").write_text(json.dumps({"task": "statistics", "data": {}}))
    assert run(["check", str(tmp_path)]) == 3
    assert "holds no records" in capsys.readouterr().err


def test_damaged_headers_are_read_as_far_as_they_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = {"training_calls": [None, {"call": 3}, {"call": "optimizer_step", "gradients": 5}], "optimizers": "none"}
    dump(
        tmp_path, 0, kept=False, **damaged, model_parameters=[{"name": 4}, {"name": "x", "value": 1}], shared_storage=4
    )
    dump(tmp_path, 1, kept=False, training_calls={}, process_groups=[4], end="x", optimizers=[{"optimizer": "a"}])
    assert run(["check", str(tmp_path)]) == 0
    assert "Nothing is wrong" in capsys.readouterr().out
