"""The judgement of a kernel that inductor made for Triton, for the back end of NPU, which asks for it by these names.

The back end runs a kernel and the same operators one by one, and calls, one after the other,

    exist_in_precision_standard(kernel)            whether msprobe is to judge; no: its own tolerance decides
    precision_compare(kernel, expected, actual, dtype)
    convert_compare_column_to_row(column, kernel)
    get_compare_result(row, kernel)                one of the words of ``CompareConst``
    print_check_details(column, kernel)            where it is an error

No kernel has a published standard, so the registry answers no, and the back end does what it does without this package.
Who calls the others gets the verdict on two arrays of every other tool (``numerics/array_verdict.py``). This was never
run with torch_npu itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from msprobe.core.errors import InterfaceError, argument_text
from msprobe.core.log import logger
from msprobe.numerics.array_verdict import judge_arrays

BENCHMARK_COMPARE_SUPPORT_LIST = ["torch.float16", "torch.bfloat16", "torch.float32"]


class CompareConst:
    """The verdict words."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


@dataclass(frozen=True, slots=True)
class KernelComparison:
    """One output of a kernel against what it should be.

    Attributes:
        kernel: its name.
        dtype: the type it computed in, such as ``float16``.
        shape: of the output.
        status: a word of ``CompareConst``.
        times: the largest difference in units of its tolerance; NaN where there is no number.
        relative_norm: the norm of the difference, relative to the larger of both norms.
        reason: why it is an error; empty where it passes.
    """

    kernel: str
    dtype: str
    shape: tuple[int, ...]
    status: str
    times: float
    relative_norm: float
    reason: str


def exist_in_precision_standard(kernel_name: str, *_: Any, **__: Any) -> bool:
    """Return whether ``kernel_name`` has a precision standard: always False."""
    return False


def precision_compare(kernel_name: str, expected: Any, actual: Any, dtype: Any = None, **_: Any) -> KernelComparison:
    """Judge what a kernel computed.

    Args:
        kernel_name: for the messages.
        expected, actual: tensors of one shape, on any device.
        dtype: in which the kernel computed; that of ``actual`` where it is left out.

    Raises:
        InterfaceError: one of them is no tensor.
    """
    for name, value in (("expected", expected), ("actual", actual)):
        if not isinstance(value, torch.Tensor):
            raise InterfaceError(f"precision_compare: {name} must be a tensor, got {argument_text(value)}")
    names = str(dtype or actual.dtype).removeprefix("torch."), str(expected.dtype).removeprefix("torch.")
    verdict = judge_arrays(_array(actual), _array(expected), *names)
    shape, difference = tuple(actual.shape), verdict.difference
    status = CompareConst.PASS if verdict.level == "pass" else CompareConst.ERROR
    return KernelComparison(
        kernel_name, names[0], shape, status, verdict.times, difference.relative_norm, verdict.reason
    )


def convert_compare_column_to_row(compare_column: KernelComparison, kernel_name: str = "", **_: Any) -> dict[str, Any]:
    """Return the fields of a comparison as one row of a table."""
    row = {name: getattr(compare_column, name) for name in KernelComparison.__slots__}
    return {**row, "kernel": kernel_name or compare_column.kernel}


def get_compare_result(compare_row: Any, kernel_name: str = "", **_: Any) -> str:
    """Return the verdict of a row, or of a comparison; what holds none is an error, never a pass."""
    found = compare_row.get("status") if isinstance(compare_row, Mapping) else getattr(compare_row, "status", None)
    words = (CompareConst.PASS, CompareConst.WARNING, CompareConst.ERROR, CompareConst.SKIP)
    return found if isinstance(found, str) and found in words else CompareConst.ERROR


def print_check_details(compare_column: KernelComparison, kernel_name: str = "", **_: Any) -> None:
    """Log what a comparison found."""
    logger.warning(
        "kernel %s, %s of shape %s: %s%s",
        kernel_name or compare_column.kernel,
        compare_column.dtype,
        list(compare_column.shape),
        compare_column.status,
        f": {compare_column.reason}" if compare_column.reason else "",
    )


def _array(value: Any) -> Any:
    """Return the elements; types that numpy does not know become float32, which holds all of them."""
    host = value.detach().cpu()
    if host.is_floating_point() and host.dtype not in (torch.float16, torch.float32, torch.float64):
        host = host.float()
    return host.resolve_conj().resolve_neg().numpy()
