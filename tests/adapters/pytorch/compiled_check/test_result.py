"""The words of a result."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.compiled_check.result import CompareResult, ModuleDiff  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.tensor_diff import compare_tensors  # noqa: E402

pytestmark = pytest.mark.torch

ONE = torch.linspace(-2, 3, 50)


def test_the_first_wrong_module_is_named() -> None:
    right, wrong = compare_tensors(ONE, ONE), compare_tensors(-ONE, ONE)
    result = CompareResult(
        diffs=[
            ModuleDiff("a", fwd_output=[right]),
            ModuleDiff("b", fwd_output=[right], grad_param=[wrong], parameters=("weight",)),
            ModuleDiff("c", fwd_output=[wrong]),
        ]
    )
    assert (result.first_wrong.name, result.all_pass, result.compared) == ("b", False, 4)
    lines = list(result.lines)
    assert "grad_param weight" in lines[2]
    assert lines[-1] == "RESULT: FAIL, first at b"
