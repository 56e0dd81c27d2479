"""A run of a model file beside its program: what a file does not say is no difference, other values are one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

NAME = "Module.fc.Linear.forward.0"


def pair(folder: Path, own: dict[str, Any], **header: Any) -> Any:
    """Compare a run of a model file, which has ``own``, with one of a program that has a parameter more."""
    write(folder / "program", {NAME: {**call([tensor()], [tensor()]), "parameters": {"weight": tensor()}}})
    write(folder / "model", {NAME: own})
    document = folder / "model/dump.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), **header}))
    return compare(folder / "model", folder / "program").summary


def test_parameters_that_the_file_lacks_are_told(tmp_path: Path) -> None:
    found = pair(tmp_path, call([tensor()], [tensor()]), framework="onnx", model_file="m.onnx")
    assert found.verdict == "same" and "is a model file, which lacks 1 arguments" in found.reason


def test_another_value_is_a_difference(tmp_path: Path) -> None:
    other = {**tensor(), "Max": 9.0, "Norm": 30.0}
    found = pair(tmp_path, call([tensor()], [other]), framework="onnx", model_file="m.onnx")
    assert found.verdict == "diverged" and found.first_divergence.slot == "output.0"


def test_of_a_program_it_is_a_difference(tmp_path: Path) -> None:
    assert pair(tmp_path, call([tensor()], [tensor()]), framework="pytorch").verdict == "diverged"
