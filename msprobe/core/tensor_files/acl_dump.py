"""Reads the files that ACL (the runtime of Ascend NPUs) dumps: one file for each run of a kernel, without a suffix.

    8 bytes: size of the header, little endian
    header:  a message DumpData
    data:    the bytes of all inputs, then of all outputs, then of all buffers, where the header does not hold them

    message DumpData { string version = 1; uint64 dump_time = 2; repeated OpOutput output = 3;
                       repeated OpInput input = 4; repeated OpBuffer buffer = 5; string op_name = 6; }
    message OpOutput { data_type = 1; format = 2; Shape shape = 3; original_op = 4; bytes data = 5; uint64 size = 6;
                       Shape original_shape = 7; int32 sub_format = 8; }
    message OpInput  { data_type = 1; format = 2; Shape shape = 3; bytes data = 4; uint64 size = 5;
                       Shape original_shape = 6; int32 sub_format = 7; }
    message OpBuffer { buffer_type = 1; bytes data = 2; uint64 size = 3; }
    message Shape    { repeated uint64 dim = 1; }

Fields of later versions are skipped. The bits of ``format`` above the lowest eight, or ``sub_format``, are the number
of groups of a FRACTAL_Z.

Source: ``proto/dump_data.proto`` of GraphEngine (gitee.com/ascend/metadef, Apache-2.0). Not confirmed by a public text:
the numbers 28 (that of int4 in GraphEngine's own ``DataType``) and 32 (the free number between 31 and hifloat8), the
first of two int4 in the low half of a byte, and that buffers come last. Checked with files that the package protobuf
encodes from the same definition; not checked with files of a device.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import regular
from msprobe.core.tensor_files.kernel_tensor import INT4, MOST_AXES, KernelTensor, kernel_tensor, unread_dtype
from msprobe.core.tensor_files.npu_layouts import FORMATS
from msprobe.core.tensor_files.protobuf import Field, fields, integers

DTYPES = {
    1: "float32",
    2: "float16",
    3: "int8",
    4: "uint8",
    5: "int16",
    6: "uint16",
    7: "int32",
    8: "int64",
    9: "uint32",
    10: "uint64",
    11: "bool",
    12: "float64",
    16: "complex64",
    17: "complex128",
    18: "int8",
    19: "int16",
    20: "int32",
    21: "uint8",
    22: "uint16",
    27: "bfloat16",
    28: INT4,
    32: "complex32",
    33: "hifloat8",
    34: "float8_e5m2",
    35: "float8_e4m3fn",
    36: "float8_e8m0fnu",
}
"""The types by the number of ``OutputDataType``."""
_LENGTH = 8
_MOST_TENSORS = 1 << 16
_MOST_FIELDS = 64
"""How many fields a tensor may have; the definition has 8."""
_FIRST_TAGS = frozenset({0x0A, 0x10, 0x1A, 0x22, 0x2A, 0x32})


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of fields that inputs and outputs have in other places."""

    data: int
    size: int
    original: int
    sub_format: int


_OUTPUT, _INPUT, _BUFFER = _Numbers(5, 6, 7, 8), _Numbers(4, 5, 6, 7), _Numbers(2, 3, 0, 0)
_SIDES = {3: ("output", _OUTPUT), 4: ("input", _INPUT), 5: ("buffer", _BUFFER)}


@dataclass(slots=True)
class _Header:
    data_type: int = 0
    format: int = 2
    groups: int = 0
    shape: tuple[int, ...] = ()
    original: tuple[int, ...] | None = None
    inline: memoryview | None = None
    size: int = 0


def is_acl_dump(path: Path) -> bool:
    """Return whether a file begins like a dump of ACL: a size that a header may have, and its first field."""
    with regular(path).open("rb") as file:
        start = file.read(_LENGTH + 1)
        size = int.from_bytes(start[:_LENGTH], "little")
        return len(start) > _LENGTH and 0 < size < 1 << 48 and start[_LENGTH] in _FIRST_TAGS


def read_acl_dump(path: Path) -> list[KernelTensor]:
    """Return inputs, outputs and buffers of a kernel, named ``input.0``, ``output.0``, ``buffer.0``.

    A tensor without data (a dump may hold outputs alone) or of a type that cannot be read has a ``problem``.

    Raises:
        ReadError: the file is damaged or cut off.
    """
    try:
        with regular(path).open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return list(_tensors(whole))
    except (OSError, ValueError) as error:
        raise ReadError(f"{path}: cannot be read ({error})") from error
    except ReadError as error:
        raise ReadError(f"{path}: no readable dump of ACL ({error.error_info})") from error


def _tensors(whole: memoryview) -> Iterator[KernelTensor]:
    size = int.from_bytes(whole[:_LENGTH], "little")
    if not 0 < size <= len(whole) - _LENGTH:
        raise ReadError("the header is longer than the file")
    sides: dict[str, list[_Header]] = {"input": [], "output": [], "buffer": []}
    for field in fields(whole[_LENGTH : _LENGTH + size], _MOST_TENSORS):
        if field.number in _SIDES:
            side, numbers = _SIDES[field.number]
            sides[side].append(_header(field.data, numbers))
    at = _LENGTH + size
    for side, headers in sides.items():
        for number, header in enumerate(headers):
            data = header.inline
            if data is None:
                data = whole[at : at + header.size]
                at += header.size
            if len(data) < header.size:
                raise ReadError(f"{side}.{number}: the file ends before its data; it is cut off")
            yield _tensor(f"{side}.{number}", header, data)


def _header(message: memoryview, numbers: _Numbers) -> _Header:
    if numbers is _BUFFER:
        return _buffer(message)
    header = _Header()
    for field in fields(message, _MOST_FIELDS):
        if field.number == 1:
            header.data_type = field.integer
        elif field.number == 2:
            header.format = field.integer & 0xFF
            header.groups = max(header.groups, field.integer >> 8 & 0xFFFF)
        elif field.number == 3:
            header.shape = _shape(field)
        elif field.number == numbers.data and len(field.data):
            header.inline = field.data
        elif field.number == numbers.size:
            header.size = field.integer
        elif field.number == numbers.original:
            header.original = _shape(field)
        elif field.number == numbers.sub_format:
            header.groups = max(header.groups, field.integer)
    return header


def _buffer(message: memoryview) -> _Header:
    """Return a buffer: bytes without type and shape."""
    header = _Header(data_type=4)
    for field in fields(message, _MOST_FIELDS):
        if field.number == _BUFFER.data and len(field.data):
            header.inline = field.data
        elif field.number == _BUFFER.size:
            header.size = field.integer
    header.shape = (header.size if header.inline is None else len(header.inline),)
    return header


def _shape(field: Field) -> tuple[int, ...]:
    dims: list[int] = []
    for part in fields(field.data, MOST_AXES):
        if part.number == 1:
            dims += integers(part, MOST_AXES)
    if len(dims) > MOST_AXES:
        raise ReadError(f"a shape of {len(dims)} axes; the file is damaged")
    return tuple(dims)


def _tensor(name: str, header: _Header, data: memoryview) -> KernelTensor:
    layout = FORMATS.get(header.format, f"format {header.format}")
    whole = KernelTensor(name, unread_dtype(), header.shape, layout, header.original or None, data)
    if not len(data) and 0 not in header.shape:
        return replace(whole, problem="the dump holds no data of it")
    if layout == "FRACTAL_Z" and header.groups > 1:
        return replace(whole, problem=f"FRACTAL_Z in {header.groups} groups cannot be read")
    tensor = kernel_tensor(whole, header.data_type, DTYPES)
    needed = prod(tensor.shape) * tensor.dtype.itemsize
    if 0 <= needed < len(tensor.data):  # memory of a device is padded at its end
        return replace(tensor, data=tensor.data[:needed])
    return tensor
