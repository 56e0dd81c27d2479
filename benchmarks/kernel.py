"""How fast the compiled kernel reads memory, per dtype, in GB/s: statistics, these with the projection, with
the CRC-32, and the CRC-32 alone.

The fastest of many passes over zeros and ones of the given size, beside numpy's maximum and sum of float32 over as many
bytes. 1 MB lies in the processor's caches, so that arithmetic is the limit; with 100 MB it is the memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import table

from msprobe.core.tensors.dtypes import find_dtype
from msprobe.native import fused

DTYPES = "float32,bfloat16,float16,float64,int64,int32,int8,bool"


def fastest(work: Callable[[], object], passes: int) -> float:
    """Seconds of the fastest pass."""
    best = float("inf")
    for _ in range(passes):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def speeds(name: str, size: int, passes: int) -> list[str]:
    """A row of the table."""
    dtype = find_dtype(name)
    assert dtype is not None and fused is not None
    one = 0x3F80 if dtype.name == "bfloat16" else 1  # numpy has no bfloat16: its bits
    memory = (np.random.default_rng(0).integers(0, 2, size // dtype.itemsize) * one).astype(dtype.container)
    at, count, kernel = memory.ctypes.data, memory.size, fused
    passed = (
        fastest(lambda: kernel.summary(at, count, dtype.code), passes),
        fastest(lambda: kernel.summary(at, count, dtype.code, False, True), passes),
        fastest(lambda: kernel.summary_crc32(at, count, dtype.code), passes),
        fastest(lambda: kernel.crc32(at, memory.nbytes), passes),
    )
    return [name, *(table.figure(memory.nbytes / seconds / 1e9, 1) for seconds in passed)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=DTYPES, help="comma-separated")
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of a tensor")
    parser.add_argument("--passes", type=int, default=200)
    options = parser.parse_args(arguments)
    if fused is None:
        print("the compiled kernel is not installed: install this package where there is a C compiler", file=sys.stderr)
        return 1
    rows = [speeds(name, options.size, options.passes) for name in options.dtypes.split(",")]
    print(table.markdown(("GB/s", "statistics", "with projection", "with CRC-32", "CRC-32"), rows))
    floats = np.ones(options.size // 4, np.float32)
    largest, total = fastest(floats.max, options.passes), fastest(floats.sum, options.passes)
    print(f"numpy, float32: max {floats.nbytes / largest / 1e9:.1f}, sum {floats.nbytes / total / 1e9:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
