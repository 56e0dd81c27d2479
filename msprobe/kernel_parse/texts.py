"""Elements of tensor files as text: all of them, or those that differ between two files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import write_atomic
from msprobe.kernel_parse.read import ReadTensor, read_file

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DifferingElements:
    """The elements of two tensors that differ by more than ``atol + rtol * |golden|``; NaN equals NaN only.

    Attributes:
        positions: their indexes, one row each.
        target, golden: their values.
        size: how many elements the tensors have.
    """

    positions: Array
    target: Array
    golden: Array
    size: int

    @property
    def count(self) -> int:
        """Return how many elements differ."""
        return len(self.target)

    def lines(self, most: int) -> Iterator[str]:
        """Yield the first elements that differ, and how many there are."""
        for position, one, other in zip(self.positions[:most], self.target, self.golden, strict=False):
            yield f"{[int(index) for index in position]}: {one:.9g} against {other:.9g}"
        yield f"{self.count} of {self.size} elements differ ({100.0 * self.count / max(self.size, 1):.4g} %)"


def write_texts(path: Path) -> list[Path]:
    """Write the elements of each tensor of a file beside it, a line for each row of the last axis.

    Raises:
        ReadError: the file cannot be read.
        OSError: a text cannot be written.
    """
    written = []
    for tensor in read_file(path):
        values = np.atleast_1d(tensor.values())
        text = io.BytesIO()
        rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
        np.savetxt(text, rows, fmt="%.9g" if rows.dtype.kind == "f" else "%s")
        target = path.parent / file_name(tensor.name, ".txt")
        write_atomic(target, [text.getvalue()])
        written.append(target)
    return written


def compare_elements(target: Path, golden: Path, atol: float, rtol: float, save: bool) -> DifferingElements:
    """Compare the only tensors of two files element by element.

    Raises:
        ReadError: a file cannot be read, holds several tensors, or the shapes differ.
        OSError: the text cannot be written (``save``).
    """
    sides = [_only(path).values() for path in (target, golden)]
    if sides[0].shape != sides[1].shape:
        raise ReadError(f"{target}: shape {list(sides[0].shape)} against {list(sides[1].shape)} of {golden}")
    wide = np.complex128 if "c" in (sides[0].dtype.kind, sides[1].dtype.kind) else np.float64
    one, other = (np.atleast_1d(side).astype(wide) for side in sides)
    apart = ~np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
    found = DifferingElements(np.argwhere(apart), one[apart], other[apart], one.size)
    if save:
        lines = "\n".join(found.lines(found.count)) + "\n"
        write_atomic(target.with_name(f"{target.stem}_compared.txt"), [lines.encode()])
    return found


def _only(path: Path) -> ReadTensor:
    tensors = read_file(path)
    if len(tensors) != 1:
        raise ReadError(f"{path}: holds {len(tensors)} tensors; convert it first (msprobe parse -d)")
    return tensors[0]
