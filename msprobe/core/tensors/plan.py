"""What to compute for each tensor: which statistics, how precisely, which checksum.

One plan is made from the configuration before training and used unchanged for every tensor.
Example: `StatsPlan.for_summary_mode("md5", "low")` asks for the statistics and a CRC-32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Precision = Literal["low", "high"]


class ChecksumKind(str, Enum):
    """The two checksums a record may carry under its key `md5`."""

    CRC32 = "crc32"
    XOR = "xor"


@dataclass(frozen=True, slots=True)
class StatsPlan:
    """`statistics`: compute Max, Min, Mean, Norm. `precision` "high" means float32 or better instead of the tensor's
    own dtype.
    """

    statistics: bool = True
    precision: Precision = "low"
    checksum: ChecksumKind | None = None

    @classmethod
    def for_summary_mode(cls, mode: str, precision: Precision = "low") -> StatsPlan:
        """The plan of a configured `summary_mode`: statistics, md5 (statistics and CRC-32) or xor (the checksum alone).

        Raises ValueError for any other mode.
        """
        if mode == "statistics":
            return cls(precision=precision)
        if mode == "md5":
            return cls(precision=precision, checksum=ChecksumKind.CRC32)
        if mode == "xor":
            return cls(statistics=False, precision=precision, checksum=ChecksumKind.XOR)
        raise ValueError(f"summary_mode: {mode!r} is not one of statistics, md5, xor")
