"""Finds the compiled kernel, or says there is none: `load()` never raises.

The kernel is optional. It is absent when the package was installed without a C compiler, when its interface is older
or newer than this file, or when the environment variable MSPROBE_NATIVE is 0; callers then use their own reductions.

All pointers are addresses of contiguous, aligned or unaligned, readable memory that stays alive during the call;
`code` is `DType.code` of `msprobe.core.tensors.dtypes`. Lengths are elements, except for `crc32` and `xor64`, which
take bytes. A wrong pointer crashes the process: pass only what a tensor reports about itself.
"""

from __future__ import annotations

import importlib
import os
from typing import Protocol, cast

INTERFACE = 6

Extreme = float | int | bool | None
Stats = tuple[Extreme, Extreme, float, float, int]
Summary = tuple[Extreme, Extreme, float | None, float | None]
SummaryWithCrc = tuple[Extreme, Extreme, float | None, float | None, int]

TensorSummary = tuple[int, tuple[int, ...], Summary] | tuple[int, tuple[int, ...], int, int]

Difference = tuple[float, float, float, float, float, float, float, int, int]


class Kernel(Protocol):
    """What the compiled module offers. Unknown dtype codes and null pointers raise ValueError."""

    INTERFACE: int
    FAST_CRC32: int

    def stats(self, pointer: int, elements: int, code: int, /) -> Stats:
        """(max, min, sum, sum of squares, NaN and infinite elements): raw IEEE moments in double; complex elements by
        magnitude.
        """

    def summary(self, pointer: int, elements: int, code: int, high: bool = False, /) -> Summary:
        """(max, min, mean, norm), finished: rounded as `TensorStats` says, Python bool, int or float as the dtype
        asks, None if empty.
        """

    def tensor_summary(self, exchange: object, tensor: object, high: bool, large: int, /) -> TensorSummary | None:
        """(code, shape, summary) of a tensor object, asked of its framework through the capsule of DLPack's C exchange
        API on its type; (code, shape, pointer, elements) for one of ``large`` bytes or more. None for what is empty,
        not dense, not in the memory of this process or of a dtype without a kernel.
        """

    def summary_crc32(self, pointer: int, elements: int, code: int, high: bool = False, /) -> SummaryWithCrc:
        """`summary` and the CRC-32 of the same bytes, read once."""

    def crc32(self, pointer: int, length: int, start: int = 0, /) -> int:
        """As zlib.crc32; slower than zlib where FAST_CRC32 is 0."""

    def xor64(self, pointer: int, length: int, /) -> int:
        """XOR of the little-endian 64-bit words, zero padded."""

    def difference(self, target: int, golden: int, elements: int, code: int, /) -> Difference | int | None:
        """(n.b, n.n, b.b, |n-b|^2, max |n-b|, max of |n| and |b|, max r, number of r < 0.001, of r < 0.005) of two
        float tensors of one dtype, with r = |(n-b)/b|; 0 when all bytes are equal, None when NaN or Inf stand at
        different places.
        """

    def projection(self, pointer: int, elements: int, code: int, /) -> float | None:
        """The order-sensitive sum of `msprobe.core.tensors.projection`; None if empty."""

    def elements(
        self, target: int, golden: int, elements: int, code: int, rtol: float, atol: float, /
    ) -> tuple[int, int, int, int, int]:
        """(first that differs, worst, most steps between two, 1 if any is not close, 1 if NaN or Inf stand at different
        places) of two float tensors of one dtype; indices in row-major order, -1 for none. Where the last is 1, worst
        is the first such place and the number of steps means nothing.
        """


def load() -> Kernel | None:
    """The compiled kernel, or None."""
    if os.environ.get("MSPROBE_NATIVE", "").strip() == "0":
        return None
    try:
        module = importlib.import_module("msprobe.native._fused")
    except ImportError:
        return None
    if getattr(module, "INTERFACE", None) != INTERFACE:
        return None
    return cast(Kernel, module)
