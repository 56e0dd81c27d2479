"""The command that runs the first divergence alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from msprobe.analyze.script_command import script_command
from msprobe.compare.rows.summary import FirstDivergence

NAME, BACK = "Functional.linear.0.forward", "Functional.linear.0.backward"
FOUND = FirstDivergence(0, None, NAME, NAME, "output.0", "value", "because", None, [])


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "msprobe op_generate 'my run' --api Functional.linear.0"),
        (
            {"target": BACK},
            "msprobe op_generate 'my run' --api Functional.linear.0 --backward",
        ),
        ({"target": None}, ""),
        ({"target": "Module.fc.Linear.forward.0"}, ""),
        ({"kind": "order"}, ""),
        ({"ranks": [1]}, ""),
    ],
)
def test_the_command(changes: dict[str, Any], command: str) -> None:
    assert script_command(replace(FOUND, **changes), "my run") == command


def test_without_a_divergence() -> None:
    assert script_command(None, "run") == ""
