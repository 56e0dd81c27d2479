"""``print_struct``: the structure of the model, from which targets are chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.monitor.trained import names_of, train

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def test_print_struct_writes_what_targets_are_chosen_from_and_the_training_goes_on(output: Path) -> None:
    train({"print_struct": True})
    document = json.loads((output / "module_struct" / "rank0" / "module_struct.json").read_text())
    assert document["0:fc1"] == {
        "input": {"config": "list[1]", "0": "size=(4, 8), dtype=torch.float32"},
        "output": {"config": "tensor", "tensor": "size=(4, 16), dtype=torch.float32"},
        "input_grad": {"config": "tuple[1]", "0": "<class 'NoneType'>"},
        "output_grad": {"config": "tuple[1]", "0": "size=(4, 16), dtype=torch.float32"},
    }
    assert not names_of(output)
