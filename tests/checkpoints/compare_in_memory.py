"""Compares pairs of checkpoints and prints, as a list, how far the resident peak is above its begin, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import msprobe.adapters.pytorch.checkpoints.distributed_checkpoint  # noqa: F401  (what is imported is not counted)
from msprobe.checkpoints.job import compare_checkpoints


def peak() -> int:
    """Return the highest resident memory so far, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    before, growths = peak(), []
    for first, second in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        found = compare_checkpoints(Path(first), Path(second))
        assert {one.kind for one in found.parameters} == {"different"}
        growths.append(peak() - before)
    print(growths)
