"""Under the policy ``reference`` a statistics column of integers and floats shows floats only, as readers expect; any
text keeps both. The policy ``default`` shows integers as integers."""

from pathlib import Path
from typing import Any

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, number, tensor, write


@pytest.mark.parametrize(
    ("leaves", "shown"),
    [
        pytest.param([tensor(1.5), number(2)], "2.0", id="integer-beside-floats"),
        pytest.param([number(2), number(3)], "2", id="integers-alone"),
        pytest.param([number(2), number(3.5)], "2", id="arguments-without-tensors"),
        pytest.param([tensor(1.5), number(2), number("text")], "2", id="text-keeps-integers"),
        pytest.param([tensor(1.5), number(2), tensor(Max=float("nan"))], "2", id="nan-keeps-integers"),
    ],
)
def test_integers_beside_floats(leaves: list[Any], shown: str, tmp_path: Path) -> None:
    data = {"Torch.a.0.forward": call(leaves, [])}
    sides = write(tmp_path / "t", data), write(tmp_path / "g", data)
    row = leaves.index(number(2))
    for policy, expected in (("reference", shown), ("default", "2")):
        result = compare(*sides, policy=policy)
        assert str(list(result.rows())[row].cells[16]) == expected
