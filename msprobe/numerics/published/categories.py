"""Which published standard a result of a function is judged by, and how strictly."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

ABSOLUTE = (
    "mul mul_ __mul__ __imul__ __rmul__ add add_ __add__ __iadd__ __radd__ div div_ __div__ __idiv__ divide divide_ "
    "leaky_relu leaky_relu_ prelu reciprocal reciprocal_ rsqrt rsqrt_ square square_ sub sub_ rsub __isub__ __sub__"
)
BINARY = (
    "abs abs_ absolute absolute_ argmin bitwise_and bitwise_and_ broadcast_to ceil ceil_ equal fill_ flatten floor "
    "floor_ gather greater greater_ greater_equal greater_equal_ histc isfinite isnan less less_ less_equal "
    "less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ masked_fill masked_fill_ "
    "max_pool3d maximum minimum neg neg_ nonzero not_equal not_equal_ one_hot pad relu reshape round round_ select "
    "sign sign_ sort tile topk transpose transpose_ tril tril_ triu triu_ type_as"
)
ULPS = (
    "__matmul__ addbmm addbmm_ addmm addmm_ baddbmm baddbmm_ bilinear bmm chain_matmul hspmm linear matmul mm mv smm "
    "sspaddmm"
)
THOUSANDTH = "conv1d conv2d"


class Standard(Enum):
    """A published standard; the value is its name in the tables."""

    ABSOLUTE = "绝对阈值法"
    BINARY = "二进制一致法"
    ULP = "ULP误差比对法"
    THOUSANDTH = "双千指标法"
    BENCHMARK = "标杆比对法"


_OF_FUNCTIONS: Mapping[str, Standard] = {
    name: standard
    for names, standard in (
        (ABSOLUTE, Standard.ABSOLUTE),
        (BINARY, Standard.BINARY),
        (ULPS, Standard.ULP),
        (THOUSANDTH, Standard.THOUSANDTH),
    )
    for name in names.split()
}
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})
_LEVELS: Mapping[str, str] = {
    **dict.fromkeys(
        ("embedding", "npu_fusion_attention", "npu_fusion_attention_grad", "scatter_", "scatter_add_"), "L1"
    ),
    **dict.fromkeys(
        (
            "GELU", "addmm", "index", "layer_norm", "matmul", "mm", "nonzero", "npu_cross_entropy_loss",
            "npu_cross_entropy_loss_backward", "npu_rms_norm", "npu_rms_norm_backward", "one_hot", "sum",
        ),
        "L2",
    ),
}  # fmt: skip


class Limits(tuple[float, float, float, float], Enum):
    """How many times the metric of the other device each metric may be, by the level of the function: small values,
    root mean square, largest and mean relative error."""

    L0 = (2.0, 2.0, 10.0, 2.0)
    L1 = (2.0, 1.5, 5.0, 1.5)
    L2 = (2.0, 1.2, 2.0, 1.2)


def is_eight_bit(dtype: str) -> bool:
    """Return whether a dtype is an 8-bit float."""
    return dtype.startswith(("float8", "hifloat8"))


def standard_of(function: str, dtype: str) -> Standard:
    """Return the standard for a result of a function, by the last part of its name and its neutral dtype."""
    if is_eight_bit(dtype):
        return Standard.ULP
    if dtype not in _FLOATS:
        return Standard.BINARY
    return _OF_FUNCTIONS.get(function, Standard.BENCHMARK)


def limits_of(function: str) -> Limits:
    """Return the limits of the standard ``BENCHMARK`` for a function."""
    return Limits[_LEVELS.get(function, "L0")]
