"""Statistics of a tensor in the memory of this process, by the compiled kernel, its sums in double."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.statistics import NORM, STATISTIC_NAMES
from msprobe.native.loader import Kernel

MEASURED: Final = frozenset(STATISTIC_NAMES)
COUNTS: Final = ("zeros", "nans", "infs")
_BESIDE_NORM: Final = MEASURED - {NORM.name}


@functools.cache
def code_of(dtype: str) -> int | None:
    """Return the kernel's code of floats whose squares do not leave the range of double; None for other dtypes."""
    found = find_dtype(dtype)
    return found.code if found is not None and found.kind is DtypeKind.FLOAT and found.itemsize in (2, 4) else None


def host_statistics(kernel: Kernel, memory: tuple[int, int, int], needs: frozenset[str]) -> dict[str, Any]:
    """Return the statistics of a tensor that is not empty: the norm alone where no other one is needed.

    Args:
        kernel: the compiled kernel.
        memory: the address of the tensor, how many elements it has, and the code of its dtype (``code_of``).
        needs: the names of what is needed.
    """
    if needs.isdisjoint(_BESIDE_NORM):
        return {"Norm": math.sqrt(kernel.squares(*memory))}
    largest, least, total, squares, _ = kernel.stats(*memory)
    return {"Max": largest, "Min": least, "Mean": total / memory[1], "Norm": math.sqrt(squares)}


def is_finite(statistics: dict[str, Any]) -> bool:
    """Return whether the norm says that there is neither a NaN nor an infinity."""
    norm = statistics.get("Norm")
    return isinstance(norm, float) and math.isfinite(norm)
