"""The names that the inductor back end for NPU asks for, called as it calls them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

HEAD = "msprobe.pytorch.api_accuracy_checker.triton_adapter"
KERNEL = "triton_poi_fused_add_0"


def status_of(expected: Any, actual: Any) -> str:
    """Do what ``torch_npu`` does behind ``exist_in_precision_standard``, and return the verdict."""
    compare = import_module(f"{HEAD}.precision_compare").precision_compare
    texts = import_module(f"{HEAD}.common.compare_utils")
    column = compare(KERNEL, expected, actual, actual.dtype)
    row = texts.convert_compare_column_to_row(column, KERNEL)
    status: str = import_module(f"{HEAD}.get_compare_result").get_compare_result(row, KERNEL)
    texts.print_check_details(column, KERNEL)
    return status


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_passes_and_wrong_values_do_not(dtype: Any, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    exact = torch.randn(64, 64, dtype=torch.float64)
    expected, actual = exact.to(dtype), (exact * (1 + 0.25 * torch.finfo(dtype).eps)).to(dtype)
    assert status_of(expected, actual) == "pass"
    actual[3, 5] += 1
    assert status_of(expected, actual) == "error"
    assert KERNEL in caplog.text and "times the tolerance" in caplog.text


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.float8_e4m3fn])
def test_other_types(dtype: Any) -> None:
    value = torch.tensor([0.0, 1.0, 0.0, 1.0]).to(dtype)
    assert status_of(value, value.clone()) == "pass"
    assert status_of(value, torch.ones(4).to(dtype)) == "error"


def test_what_cannot_be_compared_is_never_a_pass() -> None:
    assert status_of(torch.ones(3), torch.ones(4)) == "error"
    assert status_of(torch.ones(2), torch.tensor([1.0, float("nan")])) == "error"
    result = import_module(f"{HEAD}.get_compare_result").get_compare_result
    assert [result(row) for row in ({}, None, {"status": "fine"}, [])] == ["error"] * 4
    with pytest.raises(Exception, match="must be a tensor"):
        import_module(f"{HEAD}.precision_compare").precision_compare(KERNEL, [1.0], torch.ones(1))


def test_no_kernel_has_a_standard_so_the_caller_uses_its_own() -> None:
    register = import_module(f"{HEAD}.precision_standard.triton_standard_register")
    assert register.exist_in_precision_standard(KERNEL) is False
