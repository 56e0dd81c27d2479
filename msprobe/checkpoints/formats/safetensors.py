"""Reads files of the format safetensors, and checkpoints of several such files with an index.

``read_safetensors`` maps a file into memory:

    size of the header (8 bytes, little endian) | header (JSON) | elements

The header maps names to ``{"dtype", "shape", "data_offsets": [begin, end]}``, offsets counted from the end of the
header; ``__metadata__`` is not a tensor. The library of the format is not used because it has no bfloat16 for numpy.
Source: https://github.com/huggingface/safetensors, section "Format".

``read_sharded`` reads the checkpoints of Hugging Face libraries, where ``*.index.json`` names the file of each tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.core.errors import ReadError, error_text
from msprobe.core.repeated_keys import parsed
from msprobe.core.store.reader import read_json_object
from msprobe.core.store.safe_files import regular
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensor_files.file_elements import elements_in_file
from msprobe.core.tensors.dtypes import find_dtype

_LARGEST_HEADER = 100_000_000
_DTYPES = {  # names of the format
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}


def read_safetensors(path: Path) -> NamedTensors:
    """Return the tensors of a file.

    Raises:
        ReadError: the file is missing or damaged.
    """
    try:
        size = path.stat().st_size
        with regular(path).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LARGEST_HEADER):
                raise ReadError(
                    f"{path}: no safetensors file, or cut off (its header would be {length} bytes long); copy it again"
                )
            header = parsed(file.read(length))
        if not isinstance(header, dict):
            raise ReadError(f"{path}: damaged, its header is not a JSON object; copy it again")
        header.pop("__metadata__", None)
        return NamedTensors("safetensors", {name: _tensor(path, 8 + length, header, name) for name in header})
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path}: damaged, its header cannot be read ({error_text(error)}); copy it again") from error


def _tensor(path: Path, start: int, header: dict[str, Any], name: str) -> LazyTensor:
    try:
        entry = header[name]
        code, shape = entry["dtype"], tuple(map(_count, entry["shape"]))
        begin, end = map(_count, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"{path}: damaged, its header says of {name!r} {header[name]!r}") from error
    dtype = find_dtype(_DTYPES.get(code, ""))
    if dtype is None:
        return LazyTensor(shape, str(code), partial(_unknown, path, str(code)))
    if end - begin != prod(shape) * dtype.itemsize or start + end > path.stat().st_size:
        raise ReadError(f"{path}: damaged or cut off, {name!r} does not fit into the file")
    return elements_in_file(path, [(start + begin, end - begin)], shape, dtype)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _unknown(path: Path, code: str) -> NDArray[Any]:
    raise ReadError(f"{path}: elements of type {code} cannot be read")


def read_sharded(index: Path, read: Callable[[Path], NamedTensors]) -> NamedTensors:
    """Return the tensors that ``index`` names; ``read`` reads one shard.

    Raises:
        ReadError: the index or a shard cannot be read, or a shard lacks a tensor.
    """
    names_of: dict[str, list[str]] = defaultdict(list)
    for name, shard in _weight_map(index).items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ReadError(f"{index}: weight_map[{name!r}] does not name a file in its folder: {shard!r}")
        names_of[shard].append(name)
    parts = []
    for shard, names in sorted(names_of.items()):
        part = read(index.parent / shard)
        missing = [name for name in names if name not in part.tensors]
        if missing:
            raise ReadError(f"{index.parent / shard}: {missing[0]} is missing, which {index.name} says is in it")
        parts.append(NamedTensors(part.layout, {name: part.tensors[name] for name in names}, part.skipped))
    return NamedTensors.joined(f"{len(parts)} shards of {index.name}", parts)


def _weight_map(index: Path) -> dict[str, Any]:
    weight_map = read_json_object(index, '{"weight_map": {"layer.weight": "file"}}').get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ReadError(f"{index}: no index of shards, `weight_map` is missing")
    return weight_map
