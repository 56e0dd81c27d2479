"""Loads the compiled kernel if there is one: `load()` never raises.

The kernel is optional. It is absent when the package was installed without a C compiler, when its interface is older
or newer than this file, or when the environment variable MSPROBE_NATIVE is 0; callers then use their own reductions.

All pointers are addresses of contiguous, aligned or unaligned, readable memory that stays alive during the call;
`code` is `DType.code` of `msprobe.core.tensors.dtypes`. Lengths are elements, except for `crc32`, `xor64` and
`element_sum`, which take bytes. A wrong pointer crashes the process: pass only what a tensor reports about itself.
"""

from __future__ import annotations

import os
from typing import Protocol, cast

from msprobe.core.distribution import install_command
from msprobe.core.interruption import import_whole, let_through
from msprobe.core.log import first_time, logger

INTERFACE = 11
_MODULE = "msprobe.native._fused"
_INSTALL_AGAIN = f"install it again, {install_command()} --force-reinstall,"
_SWITCH = "MSPROBE_NATIVE"
SUMMARY = ("Max", "Min", "Mean", "Norm")
"""The statistics that `Kernel.summary` returns, in its order; others are measured by frameworks and numpy."""

Extreme = float | int | bool | None
Stats = tuple[Extreme, Extreme, float, float, int]
Summary = tuple[Extreme, ...]
"""Statistics in the order of `SUMMARY`, then the projection and the CRC-32 where they are asked for."""

TensorSummary = tuple[int, tuple[int, ...], Summary]

Difference = tuple[float, float, float, float, float, float, float, int, int]
Similarity = tuple[float, float, float, float, float, float, float, int, int, int]


class Kernel(Protocol):
    """The functions of the compiled module. Unknown dtype codes and null pointers raise ValueError."""

    INTERFACE: int
    FAST_CRC32: int

    def stats(self, pointer: int, elements: int, code: int, /) -> Stats:
        """Return (max, min, sum, sum of squares, number of NaN and infinite elements).

        These are raw IEEE moments in double; complex elements count by magnitude.
        """

    def summary(
        self, pointer: int, elements: int, code: int, high: bool = False, projection: bool = False, /
    ) -> Summary:
        """Return the statistics named in `SUMMARY`, rounded as `core.tensors.statistics` says; None if empty.

        With ``projection`` the order-sensitive sum of `core.tensors.projection` follows, from the same pass.
        """

    def tensor_summary(
        self, exchange: object, tensor: object, high: bool = False, projection: bool = False, /
    ) -> TensorSummary | None:
        """Return (code, shape, summary) of a tensor object, whatever the order in which its elements lie in memory.

        The facts come from the framework through the capsule of DLPack's C exchange API on the type of the tensor. None
        for a tensor that is empty, expanded to 2^20 elements or more, not in the memory of this process or of a dtype
        without a kernel.
        """

    def summary_crc32(
        self, pointer: int, elements: int, code: int, high: bool = False, projection: bool = False, /
    ) -> Summary:
        """Return `summary` and at its end the CRC-32 of the same bytes, which are read once."""

    def crc32(self, pointer: int, length: int, start: int = 0, /) -> int:
        """Return the CRC-32 as zlib.crc32 does; slower than zlib where FAST_CRC32 is 0."""

    def xor64(self, pointer: int, length: int, /) -> int:
        """Return the XOR of the little-endian 64-bit words, the last one padded with zeros."""

    def element_sum(self, pointer: int, length: int, width: int, /) -> int:
        """Return the sum of `setup_check.collection.content_hash.element_sum` as a number; widths 1, 2, 4 and 8."""

    def difference(self, target: int, golden: int, elements: int, code: int, /) -> Difference | int | None:
        """Return the sums behind the metrics of two float tensors of one dtype.

        (n.b, n.n, b.b, |n-b|^2, max |n-b|, max of |n| and |b|, max r, number of r < 0.001, of r < 0.005) with
        r = |(n-b)/b|; 0 when all bytes are equal, None when NaN or Inf stand at different positions.
        """

    def similarity(self, target: int, golden: int, elements: int, code: int, /) -> Similarity:
        """Return the sums behind the similarity of two float tensors of one dtype of at least 8 bits.

        (n.b, n.n, b.b, |n-b|^2, max |n-b|, max |n|, max |b|, number of NaN and infinite elements of n, of b, most steps
        between two elements); where any is NaN or infinite, only the two numbers of these mean anything.
        """

    def elements(
        self, target: int, golden: int, elements: int, code: int, rtol: float, atol: float, /
    ) -> tuple[int, int, int, int, int]:
        """Return where and how far two float tensors of one dtype differ.

        (first that differs, worst, most steps between two, 1 if any is not close, 1 if NaN or Inf stand at different
        positions); indices in row-major order, -1 for none. Where the last is 1, worst is the first such position and
        the number of steps means nothing.
        """

    def squares(self, pointer: int, elements: int, code: int, /) -> float:
        """Return the sum of the squares of floats in double, at the speed of the memory; NaN if one is there."""

    def small(self, pointer: int, elements: int, code: int, bound: float, /) -> int:
        """Return how many floats have a magnitude below ``bound``, compared in float (float64 in double)."""


def load() -> Kernel | None:
    """Return the compiled kernel; None when it is absent, of another interface or switched off."""
    found = _find()
    return None if isinstance(found, str) else found


def absence() -> str | None:
    """Return why there is no kernel, in words; None when there is one."""
    found = _find()
    return found if isinstance(found, str) else None


def log_absence() -> None:
    """Log, once per process, that the kernel is missing; not where the environment switches it off."""
    if not _switched_off() and (reason := absence()) and first_time("no kernel"):
        logger.warning("no compiled kernel: %s. Recording works, but measures several times more slowly", reason)


def _switched_off() -> bool:
    return os.environ.get(_SWITCH, "").strip() == "0"


def _find() -> Kernel | str:
    """Return the kernel, or why there is none."""
    if _switched_off():
        return f"the variable {_SWITCH}=0 switches it off"
    try:
        module = import_whole(_MODULE)
    except ModuleNotFoundError as error:
        let_through(error)
        return (
            f"msprobe was built without it (no C compiler, {_SWITCH}=0, or another platform); "
            f"{_INSTALL_AGAIN} where there is gcc or clang"
        )
    except ImportError as error:
        let_through(error)
        return f"it cannot be loaded ({error}); {_INSTALL_AGAIN}"
    interface = getattr(module, "INTERFACE", None)
    if interface != INTERFACE:
        return f"it is of another version of msprobe (interface {interface}, not {INTERFACE}); {_INSTALL_AGAIN}"
    return cast(Kernel, module)
