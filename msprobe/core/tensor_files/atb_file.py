"""Reads ``.bin`` files of ATB (operators of transformers on Ascend NPUs): lines of text, then the bytes of one tensor.

$Version=1.0
$Object.Count=1
$Object.Length=12
dtype=1                      the number of aclDataType
format=2                     the number of aclFormat
dims=2,3
$Object.data=0,12
$End=1                       all bytes behind this line are the tensor

Source: what ATB's own ``tensor_file.py`` reads (github.com/Ascend/AscendSpeed, Apache-2.0). Not checked with files of a
device.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import regular
from msprobe.core.tensor_files.kernel_tensor import INT4, MOST_AXES, KernelTensor, kernel_tensor, unread_dtype
from msprobe.core.tensor_files.npu_layouts import FORMATS

DTYPES = {
    0: "float32",
    1: "float16",
    2: "int8",
    3: "int32",
    4: "uint8",
    6: "int16",
    7: "uint16",
    8: "uint32",
    9: "int64",
    10: "uint64",
    11: "float64",
    12: "bool",
    16: "complex64",
    17: "complex128",
    27: "bfloat16",
    29: INT4,
    33: "complex32",
    34: "hifloat8",
    35: "float8_e5m2",
    36: "float8_e4m3fn",
    37: "float8_e8m0fnu",
}
"""The types by the number of ``aclDataType`` (CANN, ``acl/acl_base.h``)."""
_START, _END = b"$Version", b"$End=1\n"
_LARGEST_HEAD = 1 << 16
_LONGEST_NUMBER = 20


def is_atb_file(path: Path) -> bool:
    """Return whether a file begins like one of ATB."""
    with regular(path).open("rb") as file:
        return file.read(len(_START)) == _START


def read_atb_file(path: Path) -> KernelTensor:
    """Return the tensor of a file, named as the file is. One of a type that cannot be read has a ``problem``.

    Raises:
        ReadError: the file is damaged.
    """
    try:
        with regular(path).open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise ReadError(f"{path}: cannot be read ({error})") from error
    head = bytes(whole[:_LARGEST_HEAD])
    end = head.find(_END)
    if not head.startswith(_START) or end < 0:
        raise ReadError(f"{path}: no file of ATB: the line $End=1 is missing")
    try:
        number, layout, shape = _described(head[:end].decode("utf-8", "replace"))
    except KeyError as error:
        raise ReadError(f"{path}: no file of ATB: the line {error.args[0]} is missing") from error
    except ValueError as error:
        raise ReadError(
            f"{path}: no file of ATB: dtype, format and dims must be numbers, of at most {MOST_AXES} axes"
        ) from error
    data = whole[end + len(_END) :]
    tensor = KernelTensor(path.stem, unread_dtype(), shape, FORMATS.get(layout, f"format {layout}"), None, data)
    return kernel_tensor(tensor, number, DTYPES)


def _described(head: str) -> tuple[int, int, tuple[int, ...]]:
    """Return the numbers of type and format, and the shape.

    Raises:
        KeyError: a line is missing.
        ValueError: a value is no number, or there are too many.
    """
    lines = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    sizes = [part for part in lines["dims"].split(",") if part.strip()]
    numbers = [lines["dtype"], lines.get("format", "2"), *sizes]
    if len(sizes) > MOST_AXES or any(len(text) > _LONGEST_NUMBER for text in numbers):
        raise ValueError
    number, layout, *shape = map(int, numbers)
    return number, layout, tuple(shape)
