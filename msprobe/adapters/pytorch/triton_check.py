"""What the inductor back end for NPU asks of an accuracy checker: which kernels have a standard of their own. None has.

Told so, the caller judges each kernel by its own tolerance, as it does without this package.
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
    """Whether ``kernel_name`` has a standard of its own."""
    return False
