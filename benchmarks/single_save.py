"""Time of ``SingleSave`` against ``numpy.save`` of the same bytes: ``python benchmarks/single_save.py [FOLDER]``."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from msprobe.core import SingleSave

REPEATS, ROUNDS = 5, 5


def seconds(folder: Path, write: Callable[[int], object]) -> float:
    """Return the time of one value, the best of several rounds, each into an empty folder."""
    best = float("inf")
    for _ in range(ROUNDS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        start = time.perf_counter()
        for number in range(REPEATS):
            write(number)
        best = min(best, (time.perf_counter() - start) / REPEATS)
    return best


def print_row(root: Path, tensor: torch.Tensor) -> None:
    """Measure one value both ways."""
    array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    plain, saved = root / "plain", root / "saved"
    saver = SingleSave(str(saved))

    def save(number: int) -> None:
        if number == 0:
            saver.step()
        saver.save_ex({"value": tensor}, number)

    numpy_time = seconds(plain, lambda number: np.save(plain / f"{number}.npy", array))
    our_time = seconds(saved, save)
    kind = f"{tensor.numel()} x {tensor.dtype}"
    print(f"{kind:28} numpy.save {numpy_time * 1e3:8.3f} ms  SingleSave {our_time / numpy_time:5.2f} x")


def main() -> None:
    """Print a row for each kind of value."""
    root = Path(tempfile.mkdtemp(dir=sys.argv[1] if sys.argv[1:] else None))
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        for elements in (1 << 12, 1 << 24):
            print_row(root, torch.arange(elements).to(dtype))
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
