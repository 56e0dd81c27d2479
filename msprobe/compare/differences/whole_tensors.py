"""Differences of whole tensors for the rows of a table, read from files and computed in parallel threads.

``tensor_differences`` compares the tensors as they are, or multiplied by matrices (``Calibration``): so a rotated or
smoothed model is compared with the plain one. A calibration is written as

    right_matmul:                       # tensor @ matrix
      target_tensor_map:
        rotation.pt: [Module.layers.0.mlp.MLP.forward.0.input.0.pt]
      golden_tensor_map: {}
    left_matmul: {...}                  # matrix @ tensor
    left_right_matmul:                  # left @ tensor @ right
      left_target_tensor_map: {...}
      right_target_tensor_map: {...}
      left_golden_tensor_map: {...}
      right_golden_tensor_map: {...}

Tensors are named by their files. The three sections are applied in this order, after axes of length 1 are dropped. The
products are computed in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.inputs.slices import cut_tensor
from msprobe.compare.table.table import LeafTable, Ranges
from msprobe.core.errors import ReadError
from msprobe.core.host import cpu_count
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.store.tensor_reader import file_inside, read_stored, read_tensor
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.metrics.elements import SAME, element_difference
from msprobe.numerics.metrics.tensor import TensorDifference, tensor_difference
from msprobe.numerics.metrics.tensor_cells import UNSUPPORTED
from msprobe.numerics.metrics.user_metrics import FAILED, Metric
from msprobe.trace.leaves import data_name, is_shape
from msprobe.trace.likeness import recorded_alike

Array = NDArray[Any]
_LEFT, _RIGHT = "left", "right"
TARGET, GOLDEN = "target", "golden"
_ORDER = (
    ("right_matmul", "", _RIGHT),
    ("left_matmul", "", _LEFT),
    ("left_right_matmul", "left_", _LEFT),
    ("left_right_matmul", "right_", _RIGHT),
)
_SHOWN = 3
_MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix that a tensor is multiplied with.

    Attributes:
        side: the side of the tensor on which it stands, ``left`` or ``right``.
        matrix: shape (n, m).
        file: the file it was read from.
    """

    side: str
    matrix: Array
    file: str

    def times(self, tensor: Array) -> Array:
        """Return the product.

        Raises:
            ReadError: the shapes do not fit.
        """
        try:
            return np.asarray(tensor @ self.matrix if self.side == _RIGHT else self.matrix @ tensor)
        except ValueError:
            order = "tensor @ matrix" if self.side == _RIGHT else "matrix @ tensor"
            shapes = f"a tensor of shape {list(tensor.shape)} and {list(self.matrix.shape)} of {self.file}"
            raise ReadError(f"no product {order} of {shapes}") from None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factors of tensors, by side of the comparison and name of the tensor file."""

    factors: Mapping[str, Mapping[str, list[Factor]]] = field(default_factory=dict)

    def has(self, side: str, name: str) -> bool:
        """Return whether a tensor of a side (``target``, ``golden``) has factors."""
        return name in self.factors.get(side, {})

    def applied(self, side: str, name: str, tensor: Array) -> Array:
        """Return the product of a tensor of a side and its factors; the tensor itself where it has none.

        Raises:
            ReadError: a product does not fit.
        """
        factors = self.factors.get(side, {}).get(name)
        if not factors:
            return tensor
        product = np.squeeze(tensor).astype(np.complex128 if tensor.dtype.kind == "c" else np.float64)
        for factor in factors:
            product = factor.times(product)
        return product.astype(tensor.dtype) if tensor.dtype.kind in "fc" else product

    def notes(self, table: LeafTable) -> list[str]:
        """Return a sentence about names that no tensor of these dumps has."""
        sides = {TARGET: table.target, GOLDEN: table.golden}
        unused = []
        for side, leaves in sides.items():
            names = {data_name(leaf.raw) for leaf in leaves if leaf is not None}
            unused += [name for name in self.factors.get(side, {}) if name not in names]
        if not unused:
            return []
        listed = ", ".join(unused[:_SHOWN]) + (" ..." if len(unused) > _SHOWN else "")
        return [f"{len(unused)} tensors that --config names are in no dump: {listed}"]


def read_calibration(given: Any) -> Calibration:
    """Return the calibration in a file or a dict.

    Raises:
        ReadError: it cannot be read, has an unknown key, or names a matrix that cannot be read.
    """
    sections = read_mapping(given, "config").table("a config")
    known = {section for section, _, _ in _ORDER}
    for name, section in sections.items():
        if name not in known:
            raise section.fail(f"unknown section {name!r}; known: {', '.join(sorted(known))}")
        parts = [prefix for own, prefix, _ in _ORDER if own == name]
        keys = [f"{prefix}{side}_tensor_map" for prefix in parts for side in (TARGET, GOLDEN)]
        for key, value in section.table(f"the section {name!r}").items():
            if key not in keys:
                raise value.fail(f"unknown key {key!r} in {name!r}; known: {', '.join(keys)}")
    factors: dict[str, dict[str, list[Factor]]] = {TARGET: {}, GOLDEN: {}}
    matrices: dict[str, Array] = {}
    for side, place, file, tensors in _maps(sections):
        if file not in matrices:
            matrices[file] = _matrix(file, tensors)
        for marked in tensors.items(f"the tensors of {file!r}"):
            factors[side].setdefault(marked.text("a tensor"), []).append(Factor(place, matrices[file], file))
    return Calibration(factors)


def _maps(sections: Mapping[str, Marked]) -> Iterator[tuple[str, str, str, Marked]]:
    """Yield side of the comparison, side of the tensor, file of the matrix and names of tensors, as applied."""
    for name, prefix, place in _ORDER:
        for side in (TARGET, GOLDEN):
            for file, tensors in _files(sections.get(name), f"{prefix}{side}_tensor_map"):
                yield side, place, file, tensors


def _files(section: Marked | None, key: str) -> Iterator[tuple[str, Marked]]:
    table = section.table("a section").get(key) if section is not None else None
    yield from table.table(f"the map {key!r}").items() if table is not None else ()


def _matrix(file: str, used: Marked) -> Array:
    try:
        matrix = read_tensor(Path(file))
    except ReadError as error:
        raise used.fail(error.error_info) from error
    if matrix.ndim != 2:
        raise used.fail(f"{file} holds no matrix, but a tensor of shape {list(matrix.shape)}")
    return matrix


def tensor_differences(
    table: LeafTable,
    target: Path,
    golden: Path,
    metrics: Sequence[Metric] = (),
    calibration: Calibration | None = None,
) -> list[TensorDifference | None]:
    """Return the difference of every row that has a tensor on both sides and a file on one; None for other rows.

    A tensor that cannot be read or compared is a stated problem in its difference.

    Args:
        table: the paired leaves.
        target: the folder of the target's tensor files.
        golden: the folder of the golden tensor files.
        metrics: further numbers to compute.
        calibration: multiplies tensors first.
    """
    jobs = []
    for row, (leaf, golden_leaf) in enumerate(zip(table.target, table.golden, strict=True)):
        if row in table.together:  # parts of a fused layer have no file that is the whole
            continue
        if leaf is not None and golden_leaf is not None and is_tensor(leaf.raw) and is_tensor(golden_leaf.raw):
            left, right = data_name(leaf.raw), data_name(golden_leaf.raw)
            if left is not None or right is not None:
                ranges = (None, None) if table.partial is None else table.partial.ranges.get(row, (None, None))
                jobs.append((row, (target, left, leaf.raw, ranges[0]), (golden, right, golden_leaf.raw, ranges[1])))
    differences: list[TensorDifference | None] = [None] * table.row_count
    with ThreadPoolExecutor(min(_MOST_WORKERS, cpu_count())) as pool:
        results = pool.map(lambda job: _difference(job[1], job[2], metrics, calibration), jobs)
        for (row, *_), difference in zip(jobs, results, strict=True):
            differences[row] = difference
    return differences


_Recorded = tuple[Path, "str | None", Mapping[str, Any], "Ranges | None"]
"""The folder of the tensor files of a side, the file of one tensor, its record, and which part of it is compared."""


def _difference(
    target: _Recorded, golden: _Recorded, metrics: Sequence[Metric], calibration: Calibration | None
) -> TensorDifference:
    (folder, left, record, ranges), (other, right, golden_record, golden_ranges) = target, golden
    if left is None or right is None:
        problem = f"the {'target' if left is None else 'golden'} has no tensor file"
        return TensorDifference(UNSUPPORTED, problem=problem, unread=True, custom=(FAILED,) * len(metrics))
    try:
        (n, n_dtype), (b, b_dtype) = read_stored(file_inside(folder, left)), read_stored(file_inside(other, right))
        n, b = cut_tensor(n, ranges), cut_tensor(b, golden_ranges)
        other_file = _other_file(TARGET, n, n_dtype, record) or _other_file("golden run", b, b_dtype, golden_record)
        multiplied = calibration is not None and (calibration.has(TARGET, left) or calibration.has(GOLDEN, right))
        if calibration is not None and multiplied:
            n, b = calibration.applied(TARGET, left, n), calibration.applied(GOLDEN, right, b)
    except ReadError as error:
        custom = (FAILED,) * len(metrics)
        return TensorDifference(UNSUPPORTED, problem=error.error_info, unread=True, custom=custom)
    difference = tensor_difference(n, b)
    if multiplied or other_file:
        problem = difference.problem or other_file
        difference = replace(difference, calibrated=multiplied, other_file=other_file, problem=problem)
    n, b = np.squeeze(n), np.squeeze(b)
    if n.shape != b.shape:
        return replace(difference, custom=("shape unmatched",) * len(metrics))
    same = difference.relative_max == 0.0 and not difference.problem
    dtype = str(record.get("dtype", ""))
    cells = [metric.cell(n, b) for metric in metrics]
    return replace(
        difference,
        elements=SAME if same else element_difference(n, b, dtype),
        contradicts=not same and not multiplied and recorded_alike(record, golden_record),
        custom=tuple(cell for cell, _ in cells),
        notes=tuple(note for _, note in cells if note),
    )


def _other_file(side: str, tensor: Array, dtype: str, record: Mapping[str, Any]) -> str:
    """Return in words how a file contradicts the record of its tensor; "" where it does not.

    Axes of length 1 are ignored, as in ``tensor_difference``. The file of a tensor that is spread over ranks, sparse or
    nested holds a part of what the record describes.
    """
    shape, recorded = record.get("shape"), find_dtype(str(record.get("dtype")))
    partial = any(key in record for key in ("placements", "layout"))
    if not partial and is_shape(shape) and np.squeeze(tensor).shape != tuple(size for size in shape if size != 1):
        return f"the file of the {side} holds a tensor of shape {list(tensor.shape)}, its record says {shape}"
    if recorded is None or find_dtype(dtype) in (None, recorded):
        return ""
    if not recorded.is_native and dtype in ("float32", "complex64"):
        return ""  # what a framework cannot save as it is
    return f"the file of the {side} holds {dtype}, its record says {record.get('dtype')}"
