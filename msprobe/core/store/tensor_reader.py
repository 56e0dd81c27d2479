"""Read tensor files as numpy arrays, without a framework: ``.pt`` (the zip layout of ``torch.save``) and ``.npy``.

    array = read_tensor(folder / "Torch.add.0.forward.output.0.pt")     # shape as saved, a 0-d tensor gives shape ()

A ``.pt`` holds a pickle that only describes tensors, and their raw bytes beside it. The pickle is read by an unpickler
that knows tensors and nothing else: it can build a description, but call nothing. bfloat16 and float8 become float32,
which holds their values exactly. A ``.npy`` of bfloat16, for which MindSpore's runtime writes the type ``'<E2'`` that
numpy lacks, is read by ``read_bfloat16``. The elements of a ``LazyTensor`` are read on demand.
"""

from __future__ import annotations

import ast
import io
import pickle
import struct
import tokenize
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import regular
from msprobe.core.store.zip_bombs import UNREADABLE_ZIP, read_member, swollen_member
from msprobe.core.tensors.dtypes import ALL_DTYPES, find_dtype, float8_values

_BFLOAT16 = "<E2"


_DAMAGED = (
    *UNREADABLE_ZIP,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    struct.error,
    pickle.UnpicklingError,
    OverflowError,
)


def read_bfloat16(path: Path) -> NDArray[Any] | None:
    """Return the elements as float32, which holds them exactly; None when the file is not of bfloat16.

    Raises:
        SyntaxError, ValueError: the file is damaged.
    """
    with regular(path).open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(file.read(2 if start[6:7] == b"\x01" else 4), "little")
        header = ast.literal_eval(file.read(size).decode("latin1"))
        if start[:6] != b"\x93NUMPY" or not isinstance(header, dict) or header.get("descr") != _BFLOAT16:
            return None
        bits = np.frombuffer(file.read(), dtype="<u2")
    shape = tuple(int(length) for length in header["shape"])
    return np.reshape(widened(bits, "bfloat16"), shape, order="F" if header["fortran_order"] else "C")


Array = NDArray[Any]

_NUMPY_OF = {dtype.name: np.dtype(dtype.container) for dtype in ALL_DTYPES}
"""The numpy dtype that holds the elements in memory, by name."""
_STORAGES = {
    "HalfStorage": "float16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "BFloat16Storage": "bfloat16",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "UntypedStorage": "",
}


@dataclass(frozen=True, slots=True)
class _PickledType:
    """A storage class or a dtype named in the pickle; ``""`` for untyped bytes."""

    dtype: str


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: str
    key: str


@dataclass(frozen=True, slots=True)
class _Description:
    """A tensor as described in the pickle; offset and strides count elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _typed(storage: Any, offset: int, shape: Any, strides: Any, *_rest: Any) -> _Description:
    return _describe(storage, storage.dtype, offset, shape, strides)


def _untyped(storage: Any, offset: int, shape: Any, strides: Any, *rest: Any) -> _Description:
    return _describe(storage, rest[2].dtype, offset, shape, strides)


def _parameter(data: Any, *_rest: Any) -> Any:
    return data


def _describe(storage: _Storage, dtype: str, offset: int, shape: Any, strides: Any) -> _Description:
    return _Description(storage, dtype, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


_ALLOWED: dict[tuple[str, str], Callable[..., Any] | _PickledType] = {
    ("torch._utils", "_rebuild_tensor_v2"): _typed,
    ("torch._utils", "_rebuild_tensor_v3"): _untyped,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("collections", "OrderedDict"): OrderedDict,
    **{("torch", name): _PickledType(dtype) for name, dtype in _STORAGES.items()},
    **{("torch.storage", name): _PickledType(dtype) for name, dtype in _STORAGES.items()},
    **{("torch", name): _PickledType(name) for name in _NUMPY_OF},
}


class _DescriptionReader(pickle.Unpickler):  # noqa: S301 - find_class refuses everything but tensors
    """Builds tensor descriptions; any other name in the pickle is refused."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = _ALLOWED.get((module, name))
        if allowed is None:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not part of a plain tensor")
        return allowed

    def persistent_load(self, pid: Any) -> _Storage:
        _tag, kind, key, *_rest = pid
        return _Storage(kind.dtype, str(key))


DAMAGED_HEADER = (tokenize.TokenError, SyntaxError, MemoryError, RecursionError, Warning, ValueError, EOFError)
"""What numpy raises about a damaged header; it warns of some, and a program may have made errors of warnings."""


def read_tensor(path: Path) -> Array:
    """Return the tensor stored at ``path``; bfloat16 and float8 are returned as float32, complex32 as complex64.

    Raises:
        ReadError: the file is missing or damaged, or does not hold exactly one plain tensor.
    """
    return read_stored(path)[0]


def file_inside(folder: Path, name: str) -> Path:
    """Return the path of the tensor file that a record names.

    Raises:
        ReadError: the name leads out of the folder.
    """
    if Path(name).name != name:
        raise ReadError(f"data_name {name!r} does not name a file in {folder}")
    return folder.joinpath(name)


def read_stored(path: Path) -> tuple[Array, str]:
    """Return what ``read_tensor`` returns, and the dtype in which the file holds the elements.

    MindSpore's ``.npy`` files hold dtypes that numpy lacks as float32, and say float32.

    Raises:
        ReadError: as ``read_tensor``.
    """
    reader = {".pt": _read_pt, ".npy": _read_npy}.get(path.suffix)
    if reader is None:
        raise ReadError(f"{path}: unknown tensor format {path.suffix!r}; .pt and .npy can be read")
    try:
        return reader(path)
    except FileNotFoundError:
        raise ReadError(f"{path}: the tensor file is missing") from None
    except (*_DAMAGED, *DAMAGED_HEADER) as error:
        _refuse(path, error)


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise ReadError(f"{path}: not a readable tensor file ({error})") from error


def _read_npy(path: Path) -> tuple[Array, str]:
    local = isinstance(path, Path)  # or a path of another store
    try:
        array = np.load(regular(path) if local else io.BytesIO(path.read_bytes()), allow_pickle=False)
    except ValueError:
        array = read_bfloat16(path)
        if array is None:
            raise
        return array, "bfloat16"
    if not isinstance(array, np.ndarray):
        raise ValueError("it is an archive of several arrays")
    return array, array.dtype.name


def _read_pt(path: Path) -> tuple[Array, str]:
    content = regular(path).read_bytes()
    members = {name.partition("/")[2]: raw for name, raw in _members(content)}
    described = _DescriptionReader(io.BytesIO(members["data.pkl"]())).load()
    if not isinstance(described, _Description):
        raise ValueError("it does not hold exactly one tensor")
    raw = np.frombuffer(members[f"data/{described.storage.key}"](), dtype=np.uint8)
    return widened(_strided(raw, described), described.dtype), described.dtype


def stored_tensor(content: memoryview) -> tuple[str, tuple[int, ...], int] | None:
    """Return dtype, shape and the position of the elements of one plain tensor that ``torch.save`` wrote.

    None where the elements do not lie in ``content`` one after the other. The bytes are not read.

    Raises:
        ReadError: it is no file of one plain tensor.
    """
    try:
        members = _stored_members(content)
        if members is None:
            return None
        found = {name.partition("/")[2]: raw for name, raw in members}
        described = _DescriptionReader(io.BytesIO(found["data.pkl"]())).load()
        if not isinstance(described, _Description):
            raise ValueError("it does not hold exactly one tensor")
        raw = np.frombuffer(found[f"data/{described.storage.key}"](), dtype=np.uint8)
        elements = _strided(raw, described)
    except _DAMAGED as error:
        raise ReadError(f"no tensor of torch.save ({error_text(error)})") from error
    if not elements.flags.c_contiguous:
        return None
    place = elements.ctypes.data - np.frombuffer(content, np.uint8).ctypes.data
    return described.dtype, described.shape, place


_Member = tuple[str, Callable[[], "bytes | memoryview"]]
_END, _ENTRY, _LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_STORED, _IN_EXTENSION = 0, 0xFFFFFFFF


def _members(content: bytes) -> list[_Member]:
    """Return names and readers of the members of an archive.

    The common case, uncompressed members and no comment at the end, is read here: ``zipfile`` takes longer to open a
    small archive than it takes to read the tensor. ``zipfile`` reads every other archive.
    """
    try:
        members = _stored_members(content)
    except struct.error:
        members = None
    if members is not None:
        return members
    archive = zipfile.ZipFile(io.BytesIO(content))
    if swollen := swollen_member(archive):
        raise ValueError(swollen)
    return [(one.filename, partial(read_member, archive, one)) for one in archive.infolist()]


def _stored_members(content: bytes | memoryview) -> list[_Member] | None:
    magic, _, _, _, count, _, offset, _ = _END.unpack_from(content, max(len(content) - _END.size, 0))
    if magic != b"PK\x05\x06" or offset == _IN_EXTENSION:
        return None
    members: list[_Member] = []
    for _ in range(count):
        fields = _ENTRY.unpack_from(content, offset)
        (magic, _, _, _, method), (size, full_size, name_size, extra, comment) = fields[:5], fields[8:13]
        start = fields[16]
        if magic != b"PK\x01\x02" or method != _STORED or size != full_size or _IN_EXTENSION in (size, start):
            return None
        name = str(content[offset + _ENTRY.size : offset + _ENTRY.size + name_size], "utf-8")
        offset += _ENTRY.size + name_size + extra + comment
        members.append((name, partial(_stored, content, start, size)))
    return members


def _stored(content: bytes | memoryview, start: int, size: int) -> memoryview:
    """Return the bytes of an uncompressed member, which follow its local header."""
    fields = _LOCAL.unpack_from(content, start)
    if fields[0] != b"PK\x03\x04":
        raise ValueError("the local header of its data is damaged")
    begin = start + _LOCAL.size + fields[9] + fields[10]
    if begin + size > len(content):
        raise ValueError("its data is cut off")
    return memoryview(content)[begin : begin + size]


def _strided(raw: NDArray[np.uint8], described: _Description) -> Array:
    """Return the described view of the bytes.

    Raises:
        ValueError: the view reaches outside the bytes.
    """
    dtype = np.dtype(_NUMPY_OF[described.dtype])
    flat = raw[: raw.size - raw.size % dtype.itemsize].view(dtype)
    shape, strides, offset = described.shape, described.strides, described.offset
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise ValueError("its shape and strides contradict each other")
    if 0 in shape:
        return np.zeros(shape, dtype)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= flat.size:
        raise ValueError(f"its data holds {flat.size} elements, element {last} is needed")
    byte_strides = tuple(stride * dtype.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, byte_strides, writeable=False)


def widened(array: Array, dtype: str) -> Array:
    """Return elements as numbers that numpy has, exactly: bfloat16 and 8-bit floats as float32, complex32 as complex64.

    Args:
        array: the elements in the container of their dtype, of any shape and layout.
        dtype: a name of ``core.tensors.dtypes``.
    """
    if dtype == "bfloat16":
        bits = array.astype(np.uint32, order="C")
        bits <<= np.uint32(16)
        return bits.view(np.float32)
    if dtype.startswith(("float8", "hifloat8")):
        return np.asarray(_float8_table(dtype)[array])
    if dtype == "complex32":
        parts = np.ascontiguousarray(array)[..., np.newaxis].view(np.float16).astype(np.float32)
        return np.asarray(parts.view(np.complex64)[..., 0])
    return array


@cache
def _float8_table(name: str) -> NDArray[np.float32]:
    """Return the values of the 256 bit patterns of an 8-bit float."""
    dtype = find_dtype(name)
    return np.array(float8_values(dtype) if dtype is not None else [], np.float32)


@dataclass(frozen=True, slots=True)
class LazyTensor:
    """A tensor in a file.

    Attributes:
        shape: elements per dimension.
        dtype: a name of ``core.tensors.dtypes``.
        read: returns an array of ``shape`` in the dtype's container (raw bits where numpy lacks the dtype); raises
            ReadError when the elements cannot be read.
        read_range: returns the elements from one position, in row-major order, up to another, as ``read`` does but
            flat and without reading the others; None where that cannot be done.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[Any]]
    read_range: Callable[[int, int], NDArray[Any]] | None = None

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)
