"""Reads folders of ``torch.distributed.checkpoint`` (``.metadata``, ``*.distcp``) without running what they name.

``.metadata`` is a pickle of plain records of that package. It is read by an unpickler that knows these records, and
calls nothing else. Each tensor is a set of chunks; a chunk is a file of ``torch.save`` at an offset of a ``.distcp``
file. The elements stay there until they are read, a range at a time; chunks of an unusual form are loaded with
``weights_only``.
"""

from __future__ import annotations

import io
import mmap
import pickle
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from msprobe.adapters.pytorch.checkpoints.checkpoint_reader import DAMAGED, bits_of, load_failure_reason
from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.tensor_reader import LazyTensor, stored_tensor
from msprobe.core.store.zip_bombs import is_compressed
from msprobe.core.tensor_files.blocks import Block, assembled
from msprobe.core.tensor_files.file_elements import elements_in_file
from msprobe.core.tensors.dtypes import find_dtype

METADATA = ".metadata"
_RECORDS = {
    "torch.distributed.checkpoint.metadata": {
        "Metadata",
        "TensorStorageMetadata",
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "MetadataIndex",
        "TensorProperties",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", "strided", "contiguous_format", "preserve_format", "device"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "PurePosixPath"},
    "datetime": set(),
}


class _MetadataReader(pickle.Unpickler):  # noqa: S301 - find_class refuses everything but records of tensors
    """Builds the records of a checkpoint; any other name in the pickle is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known = name in _RECORDS.get(module, ())
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            known = True
        if not known:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no part of a checkpoint")
        return super().find_class(module, name)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """Return the content of a folder as nested dictionaries, as the program gave it; what is no tensor is None.

    Raises:
        ReadError: the folder is incomplete, damaged, or asks for what must not be loaded.
    """
    try:
        with (folder / METADATA).open("rb") as file:
            metadata = _MetadataReader(file).load()
        entries = dict(metadata.state_dict_metadata)
        places = {(index.fqn, tuple(index.offset or ())): place for index, place in metadata.storage_data.items()}
        paths = metadata.planner_data if isinstance(metadata.planner_data, dict) else {}
        tree: dict[str, Any] = {}
        for name, entry in entries.items():
            value = _tensor(folder, name, entry, places) if isinstance(entry, TensorStorageMetadata) else None
            path = [str(part) for part in paths.get(name, ())] or [str(name)]
            _insert(tree, path, value)
    except FileNotFoundError:
        raise ReadError(f"{folder}: a distributed checkpoint without {METADATA}; copy it again") from None
    except DAMAGED as error:
        raise ReadError(f"{folder}: {METADATA} cannot be loaded safely ({error_text(error)})") from error
    return tree


def _insert(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Insert a value; a path that leads through another value gets its parts joined."""
    for at, part in enumerate(path[:-1]):
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            tree[".".join(path[at:])] = value
            return
        tree = inner
    tree[path[-1]] = value


def _tensor(folder: Path, name: str, entry: TensorStorageMetadata, places: dict[Any, Any]) -> LazyTensor:
    """Return a tensor whose parts are looked for when it is read: a damaged one spoils no other."""
    dtype = find_dtype(str(entry.properties.dtype))
    shape = tuple(int(size) for size in entry.size)
    if dtype is None:
        return LazyTensor(shape, str(entry.properties.dtype), lambda: _refuse(folder, name))
    found: list[LazyTensor] = []

    def whole() -> LazyTensor:
        if not found:
            found.append(_assembled(folder, name, entry, places))
        return found[0]

    def read_range(start: int, stop: int) -> Any:
        ready = whole()
        return ready.read_range(start, stop) if ready.read_range else ready.read().reshape(-1)[start:stop]

    return LazyTensor(shape, dtype.name, lambda: whole().read(), read_range)


def _assembled(folder: Path, name: str, entry: TensorStorageMetadata, places: dict[Any, Any]) -> LazyTensor:
    blocks = []
    for chunk in entry.chunks:
        offsets, sizes = tuple(map(int, chunk.offsets)), tuple(map(int, chunk.sizes))
        place = places.get((name, offsets))
        if place is None:
            raise ReadError(f"{folder}: {name}: a part of it is in no file")
        part = _part(folder, name, place)
        if part.shape != sizes or part.dtype != find_dtype(str(entry.properties.dtype)).name:  # type: ignore[union-attr]
            raise ReadError(
                f"{folder}: {name}: a part is not of the shape and type that {METADATA} says; copy it again"
            )
        blocks.append(Block(offsets, part))
    try:
        return assembled(tuple(int(size) for size in entry.size), blocks)
    except ReadError as error:
        raise ReadError(f"{folder}: {name}: {error.error_info}; copy it again") from error


def _part(folder: Path, name: str, place: Any) -> LazyTensor:
    """Return one chunk. Its file is a plain name inside the folder."""
    file_name = str(place.relative_path)
    if Path(file_name).name != file_name:
        raise ReadError(f"{folder}: {name}: {file_name} is no file of the checkpoint")
    if getattr(place, "transform_descriptors", None):
        raise ReadError(f"{folder}: {name}: its elements are transformed ({place.transform_descriptors[0]})")
    path, begin, length = folder / file_name, int(place.offset), int(place.length)
    try:
        return _in_file(path, begin, length) or _loaded(path, begin, length)
    except Exception as error:
        raise ReadError(
            f"{folder}: {file_name} cannot be read ({load_failure_reason(error)}); copy it again"
        ) from error


def _in_file(path: Path, begin: int, length: int) -> LazyTensor | None:
    """Return a chunk whose elements stay in the file; None where they do not lie there one after the other."""
    with path.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if begin < 0 or length <= 0 or begin + length > len(whole):
        raise EOFError("it is cut off")
    found = stored_tensor(whole[begin : begin + length])
    if found is None:
        return None
    dtype, shape, at = found
    known = find_dtype(dtype)
    if known is None:
        return None
    return elements_in_file(path, [(begin + at, prod(shape) * known.itemsize)], shape, known)


def _loaded(path: Path, begin: int, length: int) -> LazyTensor:
    with path.open("rb") as file:
        file.seek(begin)
        content = file.read(length)
    is_compressed(io.BytesIO(content))  # raises for what unpacks to gigabytes
    value = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(value, torch.Tensor):
        raise TypeError("it holds no tensor")
    dtype = find_dtype(str(value.dtype))
    if dtype is None:
        raise TypeError(f"its type {value.dtype} is not known")
    return LazyTensor(tuple(value.shape), dtype.name, lambda: bits_of(value, dtype))


def _refuse(folder: Path, name: str) -> Any:
    raise ReadError(f"{folder}: {name}: its type is not known")
