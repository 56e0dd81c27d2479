"""Optional compiled kernel: `from msprobe.native import fused` gives a `loader.Kernel` or None, never an error.

Every function has a Python equivalent: `msprobe.core.tensors.numpy_ops` for the statistics,
`msprobe.core.tensors.checksums` for the checksums.
"""

from __future__ import annotations

from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.native.loader import SUMMARY, Kernel, load

fused: Kernel | None = load()
"""The compiled kernel, or None."""

measuring: Kernel | None = fused if SUMMARY == STATISTIC_NAMES else None
"""The kernel when it measures every statistic of the table; None when the framework or numpy has to measure."""

__all__ = ["Kernel", "fused", "measuring"]
