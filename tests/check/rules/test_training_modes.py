"""Dropout of functions that stand in the forward of the model itself, which has no record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.check.facts.read_step import read_step
from msprobe.check.rules.training_modes import dropout_in_evaluation
from msprobe.core.store.reader import find_dumps
from tests.check.facts.test_read_step import node, read


def layer(training: bool) -> dict[str, Any]:
    return {"input_args": [node(1.0, 4, 8)], "training": training, "autograd": "no_grad", "output": [node(2.0, 4, 8)]}


@pytest.mark.parametrize(
    ("before", "after", "autograd", "told"),
    [(False, False, "no_grad", 1), (False, True, "no_grad", 0), (True, True, "no_grad", 0), (False, False, "grad", 0)],
)
def test_dropout_between_modules_in_evaluation(
    tmp_path: Path, before: bool, after: bool, autograd: str, told: int
) -> None:
    share = {"type": "float", "value": 0.3}
    data = {
        "Module.a.Linear.forward.0": layer(before),
        "Functional.dropout.0.forward": {
            "input_args": [node(2.0, 4, 8), share], "autograd": autograd, "output": [node(2.5, 4, 8)],
        },
        "Module.b.Linear.forward.0": layer(after),
    }  # fmt: skip
    read(tmp_path, data)
    (place,) = find_dumps(tmp_path)
    assert len(read_step(place, 0, [dropout_in_evaluation]).local) == told
