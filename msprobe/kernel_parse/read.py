"""Reads a tensor file of any known format: ATB, ACL, ``.npy``, ``.pt``, ``.safetensors``.

A ``.npy`` of MindSpore has the layout of its elements in its name; its shape in the program stands nowhere, so padding
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.checkpoints.formats.safetensors import read_safetensors
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import read_stored, widened
from msprobe.core.tensor_files.acl_dump import is_acl_dump, read_acl_dump
from msprobe.core.tensor_files.atb_file import is_atb_file, read_atb_file
from msprobe.core.tensor_files.kernel_tensor import KernelTensor, Pieces
from msprobe.core.tensor_files.npu_layouts import BLOCKED, NAMES, to_plain
from msprobe.core.tensor_files.pieces import in_order
from msprobe.core.tensors.dtypes import DType, find_dtype

_MOST_FILES = 1_000_000
_OTHER = frozenset({".csv", ".json", ".log", ".txt", ".md", ".xml", ".yaml", ".yml", ".ir", ".dot", ".xlsx", ".html"})
"""Suffixes of files that lie beside those of a dump and hold no tensor."""
ONLY_TENSOR = "tensor"
"""What the only tensor of a ``.safetensors`` is called that ``msprobe parse`` writes."""
KNOWN = "files of ATB (.bin) and ACL (no suffix), .npy, .pt and .safetensors are"


@dataclass(frozen=True, slots=True)
class ReadTensor:
    """One tensor of a file: its name there, its type and layout, and how to read it.

    Attributes:
        name: its name, the stem of a file that it is written to.
        dtype: the type in the file.
        layout: a name of ``npu_layouts.FORMATS``; ``ND`` for other files.
        bits: returns the elements in the container of the dtype.
        pieces: returns their shape, and the elements in contiguous pieces; its argument says whether in order.
    """

    name: str
    dtype: DType
    layout: str
    bits: Callable[[], Any]
    pieces: Callable[[bool], Pieces]

    def values(self) -> Any:
        """Return the elements as numbers; bfloat16 and 8-bit floats become float32.

        Raises:
            ReadError: they cannot be read.
        """
        return widened(self.bits(), self.dtype.name)


def find_files(path: Path, recursive: bool, output: Path | None = None) -> list[Path]:
    """Return the file, or the files of a folder without hidden ones and those that are documents by their suffix.

    Args:
        path: a file or folder. Links to files are followed, links to folders are not.
        recursive: whether to take the files of all folders below.
        output: a folder whose files are left out unless it is ``path``: results of an earlier run.

    Raises:
        ReadError: there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ReadError(f"{path}: no such file or folder; give a file or folder of a kernel dump")
    results = _below(path, output)
    files = []
    for child in path.rglob("*") if recursive else path.iterdir():
        if child.name.startswith(".") or child.suffix in _OTHER or not child.is_file():
            continue
        if results is None or results not in child.parents:
            files.append(child)
        if len(files) > _MOST_FILES:
            raise ReadError(f"{path}: more than {_MOST_FILES} files; give a folder of one step")
    files.sort()
    if not files:
        hint = "" if recursive else "; --recursive looks into its folders"
        raise ReadError(f"{path}: no tensor files in it{hint}")
    return files


def _below(path: Path, output: Path | None) -> Path | None:
    """Return the folder of results as a path below ``path``; None where it lies elsewhere."""
    if output is None or output.resolve() == path.resolve() or path.resolve() not in output.resolve().parents:
        return None
    return path / output.resolve().relative_to(path.resolve())


def read_file(path: Path) -> list[ReadTensor]:
    """Return the tensors of a file.

    Raises:
        ReadError: the file is of no known format, damaged, or cut off.
    """
    try:
        if path.suffix in {".npy", ".pt"}:
            return [_plain(path)]
        if path.suffix == ".safetensors":
            return list(_of_safetensors(path))
        if is_atb_file(path):
            return [_of_kernel(read_atb_file(path), path.stem)]
        if is_acl_dump(path):
            return list(_of_acl(path))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error})") from error
    raise ReadError(f"{path}: its format is not known; {KNOWN}")


def _of_safetensors(path: Path) -> Iterator[ReadTensor]:
    """Yield the tensors, each named by its file too: several files may hold the same names."""
    named = read_safetensors(path).tensors
    for name, one in named.items():
        is_ours = list(named) == [ONLY_TENSOR]
        yield _whole(path.stem if is_ours else f"{path.stem}.{name}", _dtype(path, one.dtype), "ND", one.read)


def _plain(path: Path) -> ReadTensor:
    array, name = read_stored(path)
    dtype = _dtype(path, name)
    layout = layout_of_name(path.name) if path.suffix == ".npy" else "ND"
    # Those that numpy lacks are read as numbers that hold the values exactly.
    read_as = dtype if dtype.is_native else _dtype(path, array.dtype.name)
    return _whole(path.stem, read_as, layout, lambda: to_plain(array, layout))


def layout_of_name(name: str) -> str:
    """Return the blocked layout that a file name of MindSpore has as one of its parts; ``ND`` where there is none.

    FRACTAL_Z cannot be undone without the shape in the program and counts as none.
    """
    for part in name.split("."):
        layout = NAMES.get(part, part)
        if layout in BLOCKED and layout != "FRACTAL_Z":
            return layout
    return "ND"


def _of_acl(path: Path) -> Iterator[ReadTensor]:
    for tensor in read_acl_dump(path):
        yield _of_kernel(tensor, f"{path.name}.{tensor.name}")


def _of_kernel(tensor: KernelTensor, name: str) -> ReadTensor:
    return ReadTensor(name, tensor.dtype, tensor.layout, tensor.bits, tensor.pieces)


def _whole(name: str, dtype: DType, layout: str, read: Callable[[], Any]) -> ReadTensor:
    return ReadTensor(name, dtype, layout, read, lambda _: in_order(read(), "ND", None))


def _dtype(path: Path, name: str) -> DType:
    found = find_dtype(name)
    if found is None:
        raise ReadError(f"{path}: its type {name!r} is not known")
    return found
