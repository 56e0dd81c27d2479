"""Calls that a framework makes by itself are told from those of the model's code."""

import pytest

from msprobe.compare.alignment.call_scope import frame_scope

WRAPPER = "File x/msprobe/mindspore/wrap.py, line 98, in api_function, \n return ApiTemplate(name)"
CELL = "File site-packages/mindspore/nn/cell.py, line 733, in __call__, \n return self._run_construct(*args)"
INDEX = "File site-packages/mindspore/ops/_compile_utils.py, line 140, in data_update, \n x = 1"
GETITEM = "File site-packages/mindspore/common/tensor.py, line 483, in __getitem__, \n out = x"
USER = "File model/train.py, line 65, in step, \n y = x[i]"
LINEAR = "File site-packages/torch/nn/modules/linear.py, line 125, in forward, \n return F.linear(x)"


@pytest.mark.parametrize(
    ("stack", "scope"),
    [
        pytest.param([CELL, WRAPPER, INDEX, GETITEM, USER], "__getitem__", id="indexing"),
        pytest.param([CELL, WRAPPER, USER, GETITEM], "", id="user"),
        pytest.param([GETITEM, USER], "__getitem__", id="no-wrapper"),
        pytest.param([LINEAR, CELL, USER], "", id="module"),
        pytest.param([CELL, USER], "", id="noise"),
        pytest.param([], "", id="nothing"),
        pytest.param(["something else"], "", id="no-frame"),
    ],
)
def test_scope(stack: list[str], scope: str) -> None:
    assert frame_scope(stack) == scope
