"""The signs of a gradient as two planes of bits: which elements are positive, and which are zero.

A file of the probe is a ``.npy`` of ``uint8`` with the shape (2, bytes): first the positive elements, then the zeros,
eight elements a byte (``numpy.packbits``). Files of the published tool have one ``bool`` an element, true for positive
ones; they say nothing of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import regular, replacement_file
from msprobe.core.store.tensor_reader import DAMAGED_HEADER

Bits = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of one gradient.

    Attributes:
        positive: which elements are positive, eight a byte.
        zero: which elements are zero; None where the file does not say so.
    """

    positive: Bits
    zero: Bits | None

    @classmethod
    def of(cls, gradient: NDArray[Any]) -> Signs:
        """Return the signs of the elements; NaN is neither positive nor zero."""
        flat = gradient.reshape(-1)
        with np.errstate(invalid="ignore"):
            return cls(np.packbits(flat > 0), np.packbits(flat == 0))

    def write(self, path: Path) -> None:
        """Write the file of a gradient.

        Raises:
            OSError: it cannot be written.
        """
        zero = np.zeros_like(self.positive) if self.zero is None else self.zero
        with replacement_file(path) as file:
            np.save(file, np.stack([self.positive, zero]), allow_pickle=False)


def read_signs(path: Path) -> Signs:
    """Return the signs in a file of the probe, or of the published tool.

    Raises:
        ReadError: it is neither.
    """
    try:
        array = np.load(regular(path), mmap_mode="r", allow_pickle=False)
    except (OSError, *DAMAGED_HEADER) as error:
        raise ReadError(f"{path}: is no .npy file of the gradient probe ({error_text(error)})") from error
    if not isinstance(array, np.ndarray):
        raise ReadError(f"{path}: is an archive of several arrays, no file of the gradient probe")
    if array.dtype == np.bool_:
        return Signs(np.packbits(np.asarray(array).reshape(-1)), None)
    if array.dtype == np.uint8 and array.ndim == 2 and len(array) == 2:
        return Signs(np.asarray(array[0]), np.asarray(array[1]))
    raise ReadError(f"{path}: holds {array.dtype} of shape {list(array.shape)}, no signs of a gradient")


def similarity(first: Signs, second: Signs, elements: int) -> float | None:
    """Return the share of elements with the same sign; None where there is no element to compare.

    Elements that are zero on both sides are left out, where both files know zeros: gradients that are sparse in the
    same places would be alike by their zeros alone. Gradients of zeros only are alike.

    Args:
        first, second: the signs of one gradient on two sides, of equal length.
        elements: how many elements it has.
    """
    if elements == 0 or first.positive.size != second.positive.size:
        return None
    other = first.positive ^ second.positive
    left_out = 0
    if first.zero is not None and second.zero is not None:
        other = other | (first.zero ^ second.zero)
        left_out = _count(first.zero & second.zero)
    compared = elements - left_out
    return 1.0 if compared == 0 else 1.0 - _count(other) / compared


def _count(bits: Bits) -> int:
    return int(np.unpackbits(bits).sum())
