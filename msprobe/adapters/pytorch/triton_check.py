"""The names that the inductor back end for NPU imports to ask which kernels have a precision standard.

No kernel has one here, so the caller judges each kernel by its own tolerance, as it does without this package.
"""

from __future__ import annotations

BENCHMARK_COMPARE_SUPPORT_LIST = ["torch.float16", "torch.bfloat16", "torch.float32"]


class CompareConst:
    """The verdict words."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


def exist_in_precision_standard(kernel_name: str) -> bool:
    """Return whether ``kernel_name`` has a precision standard: always False."""
    return False
