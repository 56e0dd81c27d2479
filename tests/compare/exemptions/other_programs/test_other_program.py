"""Operands in another order are no difference between two programs; in one program, or where order counts, they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import msprobe
from msprobe.pytorch import PrecisionDebugger

pytestmark = pytest.mark.torch
OTHER_PROGRAM: dict[str, Any] = {"layer_mapping": {"TopLayer": {}}}


def _record(folder: Path, operator: str, *, turned: bool, **config: Any) -> Path:
    """A loss through ``operator``, whose operands differ in value, mean and gradient."""
    torch.manual_seed(1)
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger(config | {"dump_path": str(folder), "level": "L1"})
    left = torch.randn(4, 5, requires_grad=True)
    right = torch.randn(4, 5).add(3.0).requires_grad_()
    with debugger.collect():
        function = getattr(torch, operator)
        (function(right, left) if turned else function(left, right)).square().sum().backward()
    return folder


@pytest.fixture(params=["statistics", "md5", "tensor"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The three kinds of values that operands are known by."""
    if request.param == "md5":
        return {"task": "statistics", "statistics": {"summary_mode": "md5"}}
    return {"task": request.param}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("operator", ["add", "mul", "maximum"])
def test_another_order_is_the_same(tmp_path: Path, config: dict[str, Any], operator: str) -> None:
    target = _record(tmp_path / "t", operator, turned=True, **config)
    golden = _record(tmp_path / "g", operator, turned=False, **config)
    result = msprobe.compare(target, golden, **OTHER_PROGRAM)
    assert result.verdict == "same", result.summary


def test_it_is_none_in_one_program_either(tmp_path: Path) -> None:
    target, golden = (_record(tmp_path / side, "add", turned=side == "t") for side in "tg")
    assert msprobe.compare(target, golden).verdict == "same"


def test_where_order_counts_it_is_a_difference(tmp_path: Path) -> None:
    target, golden = (_record(tmp_path / side, "sub", turned=side == "t") for side in "tg")
    found = msprobe.compare(target, golden, **OTHER_PROGRAM).summary.first_divergence
    assert found is not None and found.target == "Torch.sub.0.forward"


def test_a_wrong_operand_is_still_named(tmp_path: Path) -> None:
    target = _record(tmp_path / "t", "add", turned=True)
    golden = _record(tmp_path / "g", "add", turned=False)
    (document,) = target.rglob("dump.json")
    content = json.loads(document.read_text())
    operand = content["data"]["Torch.add.0.forward"]["input_args"][0]
    operand.update({name: operand[name] * 1.01 for name in ("Max", "Min", "Mean", "Norm")})
    document.write_text(json.dumps(content))
    found = msprobe.compare(target, golden, **OTHER_PROGRAM).summary.first_divergence
    assert found is not None and (found.target, found.slot) == ("Torch.add.0.forward", "input.0")
