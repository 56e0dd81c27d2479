"""Arguments as source code: what comes out is a literal that has the value again, or is refused."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.backend.replaying import CannotReplayError, Constant, HeldTensor
from msprobe.single_call.literals import dtype_literal, literal

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3))


def held(value: Any) -> Any:
    if isinstance(value, list):
        return [held(each) for each in value]
    if isinstance(value, dict):
        return {name: held(each) for name, each in value.items()}
    return Constant("plain", value)


def text(argument: Any) -> str:
    return literal(argument, lambda tensor: f"tensor({tensor.dtype!r})", "torch")


@given(VALUES)
def test_plain_values_come_back(value: Any) -> None:
    assert ast.literal_eval(text(held(value))) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_made_of_a_text(value: float) -> None:
    assert text(Constant("plain", value)) == f"float({str(value)!r})"


def test_other_kinds() -> None:
    tensor = HeldTensor(np.zeros(2), "float32")
    assert text([tensor, Constant("plain", 2)]) == "[tensor('float32'), 2]"
    assert text(Constant("dtype", "bfloat16")) == "dtype(torch.bfloat16)"
    assert text(Constant("size", (2, 3))) == "(2, 3, )"
    assert text([Constant("slice", (None, 2, None)), Constant("ellipsis")]) == "(slice(None, 2, None), ..., )"
    assert text(Constant("layout", "torch.strided")) == "torch.strided"
    assert dtype_literal("bool", "mindspore") == "mindspore.bool_"


@pytest.mark.parametrize(
    "constant",
    [
        Constant("dtype", "float32); import os; (0"),
        Constant("layout", "torch.strided; import os"),
        Constant("layout", "os.path"),
        Constant("memory_format", "torch.__class__()"),
        Constant("plain", object()),
        Constant("something", 1),
    ],
)
def test_what_is_no_literal_is_refused(constant: Constant) -> None:
    with pytest.raises(CannotReplayError):
        text(constant)
