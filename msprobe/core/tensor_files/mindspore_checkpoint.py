"""Reads ``.ckpt`` files of MindSpore: messages ``Checkpoint`` of its ``checkpoint.proto``.

    message Checkpoint { repeated Value value = 1; }
    message Value { string tag = 1; oneof { TensorProto tensor = 2; ... } }
    message TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3; }

A large parameter is written in several values of one tag, whose contents follow each other. Only their places are kept:
elements are read from the disk when they are needed.
"""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import regular
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensor_files.file_elements import Extent, elements_in_file
from msprobe.core.tensor_files.protobuf import fields, integers
from msprobe.core.tensors.dtypes import find_dtype

_ENCRYPTED = {bytes((0xD8 + mode, 0x5E, 0x3A, 0x7F)) for mode in range(3)}
"""How the files of ``enc_key`` begin, one for each ``enc_mode``."""
_CHECKSUM, _CHECKSUM_LENGTH, _PART = b"crc_num", 17, 1 << 20
_NAMES = {"Bool": "bool"}


@dataclass(slots=True)
class _Parameter:
    dims: tuple[int, ...] = ()
    kind: str = ""
    parts: list[Extent] = field(default_factory=list)


def is_mindspore(path: Path) -> bool:
    """Return whether a ``.ckpt`` may be one of MindSpore: torch writes zip files, or pickles, which begin with 0x80."""
    with regular(path).open("rb") as file:
        start = file.read(4)
    return start[:1] == b"\x0a" or start in _ENCRYPTED


def read_mindspore_checkpoint(path: Path) -> dict[str, LazyTensor]:
    """Return the parameters by name, in the order of the file; texts have the type ``str``.

    A file with a checksum (``crc_check``) is checked whole.

    Raises:
        ReadError: the file is damaged or encrypted, or holds no parameters.
    """
    try:
        with regular(path).open("rb") as file:
            whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            if bytes(whole[:4]) in _ENCRYPTED:
                raise ReadError("it is encrypted; load it with its key and save it without one")
            size = _size_without_checksum(file, whole)
        parameters = _parameters(whole[:size])
    except (OSError, ValueError) as error:
        raise ReadError(f"{path}: cannot be read ({error})") from error
    except ReadError as error:
        reason = error.error_info
        advice = "" if "encrypted" in reason else "; copy it again"
        raise ReadError(f"{path}: no checkpoint of MindSpore that can be read ({reason}){advice}") from error
    if not parameters:
        raise ReadError(f"{path}: no parameters in it")
    return {name: _lazy(path, name, parameter) for name, parameter in parameters.items()}


def _size_without_checksum(file: Any, whole: NDArray[np.uint8]) -> int:
    """Return the size of the message; behind it stand ``crc_num`` and ten bytes with its CRC-32, if it has one."""
    size = len(whole) - _CHECKSUM_LENGTH
    if size < 0 or bytes(whole[size : size + len(_CHECKSUM)]) != _CHECKSUM:
        return len(whole)
    crc, left = 0, size
    file.seek(0)
    while left and (part := file.read(min(left, _PART))):
        crc, left = zlib.crc32(part, crc), left - len(part)
    if crc != int.from_bytes(bytes(whole[size + len(_CHECKSUM) :]), "big"):
        raise ReadError("its CRC-32 does not fit its bytes")
    return size


def _parameters(whole: NDArray[np.uint8]) -> dict[str, _Parameter]:
    found: dict[str, _Parameter] = {}
    for value in fields(whole.data):
        if value.number != 1:
            raise ReadError(f"field {value.number} is not known")
        name, tensor = "", None
        for part in fields(value.data):
            if part.number == 1:
                name = part.text
            elif part.number == 2:
                tensor = part.data
        if tensor is not None:
            _add(found.setdefault(name, _Parameter()), tensor, whole.ctypes.data)
    return found


def _add(parameter: _Parameter, tensor: memoryview, base: int) -> None:
    """Add a value; ``base`` is the address at which the file is mapped."""
    dims: list[int] = []
    for part in fields(tensor):
        if part.number == 1:
            dims += integers(part)
        elif part.number == 2:
            parameter.kind = part.text
        elif part.number == 3:
            place = np.frombuffer(part.data, np.uint8).ctypes.data - base if len(part.data) else 0
            parameter.parts.append((place, len(part.data)))
    parameter.dims = tuple(dims)


def _lazy(path: Path, name: str, parameter: _Parameter) -> LazyTensor:
    dtype = find_dtype(_NAMES.get(parameter.kind, parameter.kind))
    shape = () if parameter.dims == (0,) else parameter.dims
    if dtype is None:
        return LazyTensor(shape, parameter.kind, lambda: _refuse(path, name, f"type {parameter.kind!r} is not known"))
    size = sum(length for _, length in parameter.parts)
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size:
        return LazyTensor(
            shape, dtype.name, lambda: _refuse(path, name, f"{size} bytes do not fit shape {list(shape)}")
        )
    return elements_in_file(path, parameter.parts, shape, dtype)


def _refuse(path: Path, name: str, reason: str) -> Any:
    raise ReadError(f"{path}: {name}: {reason}")
