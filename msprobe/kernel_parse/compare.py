"""Compares kernel dumps file by file, and writes ``batch_compare_{time}.csv``.

Files are paired by folder and kernel: the type and name in front of task, stream and time, in the order of time. Times
in names of folders, and layouts in those of files, are left out. A file that only one side has, and one that cannot be
read, gets a row too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.kernel_names import read_mapping
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.tensor_files.npu_layouts import FORMATS, NAMES
from msprobe.kernel_parse.read import ReadTensor, find_files, read_file
from msprobe.numerics.array_verdict import judge_arrays
from msprobe.numerics.metrics.tensor_cells import TENSOR_METRICS
from msprobe.report.csv_table import small_table

COLUMNS = ("tensor", "target", "golden", "shape", *TENSOR_METRICS, "Result", "Err_message")
_KERNEL = re.compile(r"(?P<kernel>.+?)\.\d+\.\d+(?:\.\d+)*\.(?P<time>\d{10,})(?P<rest>\..*)?", re.DOTALL)
_TIME = re.compile(r"\d{8,}")
_LAYOUTS = frozenset({"DefaultFormat", *FORMATS.values(), *NAMES})
Row = tuple[Any, ...]
Pair = tuple[Path | None, Path | None]


@dataclass(frozen=True, slots=True)
class KernelComparison:
    """The rows of a comparison, in the order of the target's files, and the table."""

    rows: list[Row]
    table: Path

    @property
    def failed(self) -> int:
        """Return how many tensors differ or could not be compared."""
        return sum(row[-2] != "pass" for row in self.rows)


def compare_kernels(target: Path, golden: Path, output: Path) -> KernelComparison:
    """Compare two files, or all files of two folders, and write the table below ``output``.

    Raises:
        ReadError: a side has no files.
        OSError: the table cannot be written.
    """
    paths = (target, golden)
    sides = [find_files(path, path.is_dir(), output) for path in paths]
    if all(path.is_file() for path in paths):
        pairs: list[Pair] = [(target, golden)]
    elif any(path.is_file() for path in paths):
        raise ReadError(f"{target} and {golden}: one is a file and one a folder; give two of the same kind")
    else:
        pairs = list(_pairs(paths, sides))
    rows = [row for pair in pairs for row in _rows(*pair)]
    make_folder(output)
    table = _free_table(output)
    write_atomic(table, [small_table(COLUMNS, rows).encode("utf-8-sig", "backslashreplace")])
    return KernelComparison(rows, table)


def _free_table(output: Path) -> Path:
    """Return the name of a table that is not there yet: comparisons of one second do not replace each other."""
    stem = f"batch_compare_{datetime.now():%Y%m%d%H%M%S}"
    numbered = (output / f"{stem}_{number}.csv" for number in count(1))
    return next(path for path in chain([output / f"{stem}.csv"], numbered) if not path.exists())


def _pairs(roots: Sequence[Path], sides: Sequence[list[Path]]) -> Iterator[Pair]:
    """Yield the files of one kernel and run, in the order of the first side."""
    groups: list[dict[str, list[Path]]] = [{}, {}]
    for root, side, files in zip(roots, groups, sides, strict=True):
        names = _names(files)
        for file in sorted(files, key=lambda file: (_time(names[file]), file)):
            folder = "/".join(_TIME.sub("*", part) for part in file.parent.relative_to(root).parts)
            side.setdefault(f"{folder}/{_kernel(names[file])}", []).append(file)
    for kernel in dict.fromkeys([*groups[0], *groups[1]]):
        first, second = (side.get(kernel, []) for side in groups)
        for number in range(max(len(first), len(second))):
            yield _at(first, number), _at(second, number)


def _at(files: Sequence[Path], number: int) -> Path | None:
    return files[number] if number < len(files) else None


def _names(files: Sequence[Path]) -> dict[Path, str]:
    """Return the full names of files: MindSpore replaces long ones by numbers, which ``mapping.csv`` explains."""
    mappings = {folder: read_mapping(folder) for folder in {file.parent for file in files}}
    return {file: mappings[file.parent].get(file.stem, file.name) for file in files}


def _kernel(name: str) -> str:
    match = _KERNEL.fullmatch(name)
    if match is None:
        return name
    rest = (match["rest"] or "").removesuffix(".npy").split(".")
    return match["kernel"] + ".".join(part for part in rest if part not in _LAYOUTS)


def _time(name: str) -> int:
    match = _KERNEL.fullmatch(name)
    return 0 if match is None else int(match["time"])


def _rows(target: Path | None, golden: Path | None) -> Iterator[Row]:
    """Yield a row for each tensor of two files."""
    tensors: list[dict[str, ReadTensor]] = []
    names = tuple(str(path) if path else "" for path in (target, golden))
    for path in (target, golden):
        try:
            tensors.append({} if path is None else _by_place(read_file(path), path))
        except ReadError as error:
            yield _unread("", names, error.error_info)
            return
    for place in dict.fromkeys([*tensors[0], *tensors[1]]):
        first, second = (side.get(place) for side in tensors)
        if first is None or second is None:
            yield _unread(place, names, f"only the {'golden run' if first is None else 'target'} has it")
        else:
            yield _judged(place, names, first, second)


def _by_place(tensors: list[ReadTensor], path: Path) -> dict[str, ReadTensor]:
    """Return the tensors by their place in the file: ``input.0``; the only one of a file has no place."""
    if len(tensors) == 1 and tensors[0].name == path.stem:
        return {"": tensors[0]}
    return {tensor.name.removeprefix(f"{path.name}.").removeprefix(f"{path.stem}."): tensor for tensor in tensors}


def _judged(place: str, names: tuple[str, ...], first: ReadTensor, second: ReadTensor) -> Row:
    try:
        left, right = first.values(), second.values()
    except ReadError as error:
        return _unread(place, names, error.error_info)
    verdict = judge_arrays(left, right, first.dtype.name, second.dtype.name)
    cells = verdict.difference.cells or ("N/A",) * len(TENSOR_METRICS)
    shape = str(list(left.shape)) if left.shape == right.shape else f"{list(left.shape)} / {list(right.shape)}"
    return (place, *names, shape, *cells, verdict.level, verdict.reason)


def _unread(place: str, names: tuple[str, ...], reason: str) -> Row:
    return (place, *names, "", *("N/A",) * len(TENSOR_METRICS), "error", reason)
