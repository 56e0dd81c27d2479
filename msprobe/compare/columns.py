"""The columns of the result table, by mode."""

from __future__ import annotations

from msprobe.compare.mode import Mode

_HEAD = (
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
)
_STATISTICS = (
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
)
METRICS = {
    Mode.TENSOR: (
        "Cosine",
        "EucDist",
        "MaxAbsErr",
        "MaxRelativeErr",
        "One Thousandth Err Ratio",
        "Five Thousandths Err Ratio",
    ),
    Mode.STATISTICS: (
        "Max diff",
        "Min diff",
        "Mean diff",
        "L2norm diff",
        "MaxRelativeErr",
        "MinRelativeErr",
        "MeanRelativeErr",
        "NormRelativeErr",
    ),
    Mode.CHECKSUM: ("NPU MD5", "BENCH MD5"),
}
_TAIL = ("Requires_grad Consistent", "Result", "Err_message")


def middles(mode: Mode) -> int:
    """How many columns hold metrics and statistics; they follow the eight that name and describe the values."""
    return len(METRICS[mode]) + (0 if mode is Mode.CHECKSUM else len(_STATISTICS))


def columns(mode: Mode, with_stack: bool) -> tuple[str, ...]:
    """Column titles in table order; ``with_stack`` when the target has call stacks."""
    stack = ("NPU_Stack_Info",) if with_stack else ()
    files = ("Data_name",) if mode is Mode.TENSOR else ()
    statistics = () if mode is Mode.CHECKSUM else _STATISTICS
    return (*_HEAD, *METRICS[mode], *statistics, *_TAIL, *stack, *files)
