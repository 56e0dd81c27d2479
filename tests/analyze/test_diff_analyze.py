"""``compare -da`` of calls that only one side has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.diff_analyze import diff_analyze
from tests.compare.dumps import call, tensor, write

BLOCK = "Module.block.Block.forward.0"
CALLS = {f"Torch.add.{number}.forward": call([tensor()], [tensor(2.0)]) for number in range(3)}
STACK = ["File train.py, line 7, in main, \n y = x * 2"]


@pytest.mark.parametrize(
    "body", [call([], []), {}, call([tensor(3.0)], [tensor(4.0)])], ids=["none", "empty", "values"]
)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("lacking", ["target", "golden"])
def test_a_collective_or_module_that_one_side_lacks_is_the_first_difference(
    tmp_path: Path, body: dict[str, Any], first: bool, lacking: str
) -> None:
    more = {BLOCK: body}
    longer = write(
        tmp_path / "more", {**more, **CALLS} if first else {**CALLS, **more}, stack={next(iter(more)): STACK}
    )
    shorter = write(tmp_path / "less", CALLS)
    sides = (shorter, longer) if lacking == "target" else (longer, shorter)
    result = diff_analyze(*sides, tmp_path / "out")
    ((found,),) = result.document.values()
    assert found["op_name"] == BLOCK
    assert found["stack_info"] == STACK


@pytest.mark.parametrize("lacking", ["target", "golden"])
def test_a_function_that_one_side_lacks_is_no_difference_where_later_values_agree(tmp_path: Path, lacking: str) -> None:
    longer = write(tmp_path / "more", {"Torch.mul.0.forward": call([tensor()], [tensor()]), **CALLS})
    shorter = write(tmp_path / "less", CALLS)
    sides = (shorter, longer) if lacking == "target" else (longer, shorter)
    assert diff_analyze(*sides, tmp_path / "out").document == {}
