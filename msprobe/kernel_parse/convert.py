"""``msprobe parse``: tensor files of kernels written as ``.npy``, ``.pt`` or ``.safetensors``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from msprobe.core.errors import MsprobeException, ReadError, error_text
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder_below, replacement_file
from msprobe.core.store.tensor_reader import widened
from msprobe.kernel_parse.read import ReadTensor, find_files, read_file

FileKind = Literal["npy", "pt", "safetensors"]
_FORMAT: Any = np.lib.format
_AT_ONCE = 1 << 16
"""Elements that are widened and written at a time: wider ones than these leave the caches of a processor."""
_EXPORTER = "msprobe.adapters.pytorch.checkpoints.tensor_export"
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Parsed:
    """What became of the files: the files written, and a line for each that could not be read."""

    written: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse_files(
    path: Path, output: Path, kind: FileKind = "pt", recursive: bool = False, progress: Progress | None = None
) -> Parsed:
    """Write every tensor of a file or folder to ``output``, below the folders that it lies in.

    A file or tensor that cannot be read does not stop the others.

    Raises:
        ReadError: there is no file, or none of them can be read.
        MsprobeException: the package that writes this kind of file is not installed.
        OSError: a result cannot be written.
    """
    files = find_files(path, recursive, output)
    write = _writer(kind)
    root = path if path.is_dir() else path.parent
    taken = {_place(file) for file in files}
    result = Parsed()
    for number, file in enumerate(files, 1):
        folder = output / file.parent.relative_to(root)
        try:
            tensors = read_file(file)
            make_folder_below(output, folder)
        except ReadError as error:
            result.problems.append(error.error_info)
            tensors = []
        for tensor in tensors:
            target = _free_path(folder, tensor.name, file.name, f".{kind}", taken)
            try:
                write(tensor, target)
                result.written.append(target)
            except ReadError as error:
                result.problems.append(f"{file}: {error.error_info}")
        if progress is not None:
            progress(number, len(files))
    if not result.written:
        raise ReadError(result.problems[0] if len(files) == 1 else f"{path}: none of {len(files)} files can be read")
    return result


def _free_path(folder: Path, name: str, file: str, suffix: str, taken: set[Path]) -> Path:
    """Return where a tensor goes: never over a file that is read, nor over another result of this run.

    ``a.bin`` and ``a.npy`` of one folder become ``a.pt`` and ``a.npy.pt``.
    """
    longer = file if name == file.rpartition(".")[0] else f"{file}.{name}"
    names = chain((name, longer), (f"{longer}.{number}" for number in count(1)))
    paths = (folder / file_name(one, suffix) for one in names)
    path = next(path for path in paths if _place(path) not in taken)
    taken.add(_place(path))
    return path


def _place(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _writer(kind: FileKind) -> Callable[[ReadTensor, Path], None]:
    if kind == "npy":
        return _write_npy
    try:
        save = importlib.import_module(_EXPORTER).writer(kind)
    except ModuleNotFoundError as error:
        package = error.name or "torch"
        text = f"a .{kind} needs {package}, which is not installed: pip install {package}, or -t npy"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text) from error
    except ImportError as error:
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"no .{kind}: {error_text(error)}") from error
    return lambda tensor, path: save(tensor.bits(), tensor.dtype, path)


def _write_npy(tensor: ReadTensor, path: Path) -> None:
    shape, pieces = tensor.pieces(True)
    descr = _FORMAT.dtype_to_descr(widened(np.empty(0, tensor.dtype.container), tensor.dtype.name).dtype)
    with replacement_file(path, buffering=0) as file:
        _FORMAT.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
        for piece in pieces:
            flat = piece.reshape(-1)
            for first in range(0, len(flat), _AT_ONCE):
                part = widened(flat[first : first + _AT_ONCE], tensor.dtype.name)
                _write_all(file, part.view(np.uint8).data)


def _write_all(file: BinaryIO, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]
