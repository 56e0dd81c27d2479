"""The one table of dtypes: name, size, precision and kernel code, for the names of all frameworks.

`find_dtype("torch.bfloat16")`, `find_dtype("BFloat16")` and `find_dtype("bfloat16")` are the same object. Arrays of a
dtype that numpy does not have (bfloat16, the 8-bit floats, complex32) are passed as raw bits in `DType.container`,
together with the dtype.

8-bit floats: OCP OFP8 (e4m3fn, e5m2), OCP MX (e8m0fnu), the "fnuz" variants (no infinity, no negative zero, bias larger
by one), and HiFloat8 of Ascend, whose mantissa is the shorter the farther a number is from 1 (Y. Luo et al., "Ascend
HiFloat8 Format for Deep Learning", arXiv 2409.16626); its significant bits below are the fewest that it has.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum


class DtypeKind(str, Enum):
    """The kind of the elements; it decides which statistics exist and their Python types."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: the neutral name, such as `bfloat16`.
        kind: bool, int, float or complex.
        itemsize: bytes per element.
        container: the numpy dtype that holds the elements.
        code: its number in the compiled kernel; -1 when the kernel does not support it.
        digits: significant bits of a float, or of one part of a complex number; 0 otherwise.
        largest: the largest finite value.
        finest: the smallest positive value.
    """

    name: str
    kind: DtypeKind
    itemsize: int
    container: str
    code: int
    digits: int = 0
    largest: float = math.inf
    finest: float = 0.0

    @property
    def is_native(self) -> bool:
        """Return whether numpy has this dtype, so that an array of it needs no decoding."""
        return self.container == self.name

    @property
    def unit_roundoff(self) -> float:
        """Return the largest relative error of one rounding to this dtype, 2 ** -digits; 0 for bool and integers."""
        return 2.0**-self.digits if self.digits else 0.0


_FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127
_FLOAT64_MAX = (2 - 2.0**-52) * 2.0**1023

ALL_DTYPES: tuple[DType, ...] = (
    DType("bool", DtypeKind.BOOL, 1, "bool", 0),
    DType("uint8", DtypeKind.INT, 1, "uint8", 1),
    DType("int8", DtypeKind.INT, 1, "int8", 2),
    DType("int16", DtypeKind.INT, 2, "int16", 3),
    DType("uint16", DtypeKind.INT, 2, "uint16", 4),
    DType("int32", DtypeKind.INT, 4, "int32", 5),
    DType("uint32", DtypeKind.INT, 4, "uint32", 6),
    DType("int64", DtypeKind.INT, 8, "int64", 7),
    DType("uint64", DtypeKind.INT, 8, "uint64", 8),
    DType("float16", DtypeKind.FLOAT, 2, "float16", 9, 11, 65504.0, 2.0**-24),
    DType("bfloat16", DtypeKind.FLOAT, 2, "uint16", 10, 8, (2 - 2.0**-7) * 2.0**127, 2.0**-133),
    DType("float32", DtypeKind.FLOAT, 4, "float32", 11, 24, _FLOAT32_MAX, 2.0**-149),
    DType("float64", DtypeKind.FLOAT, 8, "float64", 12, 53, _FLOAT64_MAX, 2.0**-1074),
    DType("float8_e4m3fn", DtypeKind.FLOAT, 1, "uint8", 13, 4, 448.0, 2.0**-9),
    DType("float8_e5m2", DtypeKind.FLOAT, 1, "uint8", 14, 3, 57344.0, 2.0**-16),
    DType("float8_e4m3fnuz", DtypeKind.FLOAT, 1, "uint8", 15, 4, 240.0, 2.0**-10),
    DType("float8_e5m2fnuz", DtypeKind.FLOAT, 1, "uint8", 16, 3, 57344.0, 2.0**-17),
    DType("float8_e8m0fnu", DtypeKind.FLOAT, 1, "uint8", 17, 1, 2.0**127, 2.0**-127),
    DType("complex64", DtypeKind.COMPLEX, 8, "complex64", 18, 24, _FLOAT32_MAX, 2.0**-149),
    DType("complex128", DtypeKind.COMPLEX, 16, "complex128", 19, 53, _FLOAT64_MAX, 2.0**-1074),
    DType("hifloat8", DtypeKind.FLOAT, 1, "uint8", -1, 2, 2.0**15, 2.0**-22),
    DType("complex32", DtypeKind.COMPLEX, 4, "uint32", -1, 11, 65504.0, 2.0**-24),
)

_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "bool_": "bool",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "float8_e4m3": "float8_e4m3fn",
}
_BY_NAME = {dtype.name: dtype for dtype in ALL_DTYPES}
FLOAT32 = _BY_NAME["float32"]
FLOAT64 = _BY_NAME["float64"]
COMPLEX128 = _BY_NAME["complex128"]
_BY_NAME.update({dtype.name.replace("_", ""): dtype for dtype in ALL_DTYPES})
_BY_NAME.update({alias: _BY_NAME[name] for alias, name in _ALIASES.items()})


def find_dtype(spelling: str) -> DType | None:
    """Return the dtype that a framework prints as `spelling`; None for an unknown name.

    Examples: "torch.float32", "Float32", "mindspore.int64", "float32".
    """
    return _BY_NAME.get(spelling.rpartition(".")[2].strip().lower())


def same_dtype(left: str, right: str) -> bool:
    """Return whether two spellings name one dtype: ``Float32`` is ``torch.float32``."""
    return left == right or ((dtype := find_dtype(left)) is not None and dtype is find_dtype(right))


def mindspore_name(dtype: DType) -> str:
    """Return the name that MindSpore prints: Float32, BFloat16, UInt8, Bool, Complex64, Float8E4M3FN."""
    name = dtype.name
    if name == "hifloat8":
        return "HiFloat8"
    for small, printed in (("bfloat", "BFloat"), ("uint", "UInt"), ("float8_", "Float8")):
        if name.startswith(small):
            rest = name[len(small) :]
            return printed + (rest.upper() if small == "float8_" else rest)
    return name[0].upper() + name[1:]


_FLOAT16 = struct.Struct("<e")
_FLOAT32 = struct.Struct("<f")


def round_to(dtype: DType, value: float) -> float:
    """Return the float of `dtype` nearest to `value`, ties to even; infinity when it overflows.

    For integers and bool it returns `value` itself.
    """
    if not dtype.digits or dtype.digits == 53 or not math.isfinite(value):
        return value
    try:
        if dtype.digits == 24:
            return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
        if dtype.digits == 11:
            return float(_FLOAT16.unpack(_FLOAT16.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
    unit = max(math.ldexp(1.0, math.frexp(value)[1] - dtype.digits), dtype.finest)
    rounded = round(value / unit) * unit
    return math.copysign(rounded if abs(rounded) <= dtype.largest else math.inf, value)


def _small_float(bits: int, mantissa_bits: int, bias: int) -> float:
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = (bits & 0x7F) >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
    if exponent:
        return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
    return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)


def _e5m2(bits: int) -> float:
    if bits & 0x7C != 0x7C:
        return _small_float(bits, 2, 15)
    return math.nan if bits & 3 else math.copysign(math.inf, -1.0 if bits & 0x80 else 1.0)


_HIFLOAT8_FIELDS = ((0x60, 4, 1), (0x40, 3, 2), (0x20, 2, 3), (0x10, 1, 3), (0x08, 0, 3))
"""The first pattern with each prefix, and the number of bits of exponent and mantissa that follow the prefix."""


def _hifloat8(bits: int) -> float:
    """Return a HiFloat8: after its sign a prefix gives the bits of the exponent, which has a sign and a hidden 1."""
    sign, rest = (-1.0 if bits & 0x80 else 1.0), bits & 0x7F
    if rest in (0, 0x6F):
        return (math.nan if bits else 0.0) if rest == 0 else sign * math.inf
    if rest < 8:
        return sign * math.ldexp(1.0, rest - 23)
    width, mantissa_bits = next(parts for start, *parts in _HIFLOAT8_FIELDS if rest >= start)
    field = rest >> mantissa_bits & (1 << width) - 1
    half = 1 << width >> 1
    size = half | field & max(half - 1, 0)
    mantissa = rest & (1 << mantissa_bits) - 1
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), (-size if field & half else size) - mantissa_bits)


def float8_values(dtype: DType) -> list[float]:
    """Return the value of each of the 256 bit patterns of an 8-bit float.

    Raises:
        ValueError: `dtype` is not an 8-bit float.
    """
    if dtype.name == "float8_e4m3fn":
        return [math.nan if bits & 0x7F == 0x7F else _small_float(bits, 3, 7) for bits in range(256)]
    if dtype.name == "float8_e5m2":
        return [_e5m2(bits) for bits in range(256)]
    if dtype.name == "float8_e4m3fnuz":
        return [math.nan if bits == 0x80 else _small_float(bits, 3, 8) for bits in range(256)]
    if dtype.name == "float8_e5m2fnuz":
        return [math.nan if bits == 0x80 else _small_float(bits, 2, 16) for bits in range(256)]
    if dtype.name == "float8_e8m0fnu":
        return [math.nan if bits == 0xFF else 2.0 ** (bits - 127) for bits in range(256)]
    if dtype.name == "hifloat8":
        return [_hifloat8(bits) for bits in range(256)]
    raise ValueError(f"{dtype.name} is not an 8-bit float")
