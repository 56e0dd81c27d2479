"""The statistics of a tensor: one table of what exists, and the rules that make the numbers of all backends comparable.

``STATISTICS`` is the only list of statistics. Names in files, order of columns, how parts of a tensor are merged and
which tolerance judges a difference are derived from it everywhere.

The definitions, the same for every backend (a backend may compute in another way, not to another result):

| tensor                     | Max, Min                      | Mean                 | Norm                      |
|----------------------------|-------------------------------|----------------------|---------------------------|
| empty, or no data (meta)   | None                          | None                 | None                      |
| a NaN anywhere             | NaN                           | NaN                  | NaN                       |
| an infinity, no NaN        | the extremes, infinite or not | IEEE sum: inf or NaN | inf                       |
| bool                       | any, all (bool)               | None                 | None                      |
| integer                    | exact int                     | float64              | float64                   |
| float64                    | element                       | float64              | float64, without overflow |
| float16, bfloat16, float32 | element                       | double, then rounded | double, then rounded      |
| 8-bit floats               | element                       | rounded to float32   | rounded to float32        |
| complex, as abs(z)         | largest, smallest abs(z)      | mean of abs(z)       | sqrt(sum of abs(z)^2)     |

Norm is the L2 norm over all elements, in the unit of the data; of a 0-d tensor it is the magnitude. "Rounded" means:
with precision "low" to the tensor's own dtype, so that values equal the framework's own mean and norm up to one unit
in the last place; with "high" to float32. A finite result that this format cannot hold keeps the next wider one (a
float16 tensor of 300 times 60000 has a finite norm). Magnitudes of complex64 elements are rounded to float32.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from msprobe.core.tensors.dtypes import FLOAT32, DType, DtypeKind, find_dtype, round_to

Number = float | int | bool
PROJECTION: Final = "Projection"
"""The key of the statistic of the order of elements, which ``projection`` computes."""
Precision = Literal["low", "high"]
"""To what statistics of sums are rounded: "low" is the tensor's own dtype, "high" is float32 or better."""


_LARGEST = int(sys.float_info.max)


def recorded_number(value: object, dtype: object = None) -> float | None:
    """Return a statistic of a dump as a number, None where there is none; other dumps hold some numbers as texts.

    Args:
        value: what is recorded.
        dtype: of the tensor, where it is known: other dumps say of booleans whether any of them and whether all are
            true, but a truth value is no statistic of numbers.

    Raises:
        ValueError: it is none; the message says what it is.
    """
    if value is None or type(value) is float:
        return value
    if type(value) is bool and (known := find_dtype(str(dtype))) is not None and known.kind is not DtypeKind.BOOL:
        raise ValueError("a truth value and no number")
    if isinstance(value, (int, float)):
        if abs(value) > _LARGEST and isinstance(value, int):
            raise ValueError("an integer too large for a statistic")
        return float(value)
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            raise ValueError("a text and no number") from None
        if math.isinf(number) and value.strip()[-1].isdigit():
            raise ValueError("a text of a number too large for a statistic")
        return number
    raise ValueError(f"a {'list' if isinstance(value, list) else 'table'} and no number")


class Merge(Enum):
    """How the statistic of a tensor is computed from those of its parts (``numerics.merged_statistics`` does it)."""

    LARGEST = "the largest"
    SMALLEST = "the smallest"
    WEIGHTED_MEAN = "the mean, weighted by numbers of elements"
    ROOT_OF_SQUARES = "the square root of the sum of squares"


class ToleranceOf(Enum):
    """Which tolerance of ``numerics.tolerance`` judges a difference of a statistic.

    ``ELEMENT`` is for statistics that are the value of one element; they are exact and exist for bool as well. ``MEAN``
    and ``NORM`` are for sums over all elements: float64 for integers, rounded for floats, None for bool.
    """

    ELEMENT = "element"
    MEAN = "mean"
    NORM = "norm"


class StatisticSpec(NamedTuple):
    """One statistic of a tensor: everything that config, dump, compare, graphs and trends know about it.

    Attributes:
        name: the key in dump.json ("Max").
        config_name: the name in ``summary_mode`` of config.json ("max").
        title: the word in column titles of the result table ("max", "l2norm").
        unit: the unit of the number, in words.
        merge: how the statistic of a tensor is computed from those of its parts.
        tolerance: which tolerance judges a difference.
    """

    name: str
    config_name: str
    title: str
    unit: str
    merge: Merge
    tolerance: ToleranceOf


STATISTICS: Final = (
    StatisticSpec("Max", "max", "max", "unit of the data", Merge.LARGEST, ToleranceOf.ELEMENT),
    StatisticSpec("Min", "min", "min", "unit of the data", Merge.SMALLEST, ToleranceOf.ELEMENT),
    StatisticSpec("Mean", "mean", "mean", "unit of the data", Merge.WEIGHTED_MEAN, ToleranceOf.MEAN),
    StatisticSpec("Norm", "l2norm", "l2norm", "unit of the data", Merge.ROOT_OF_SQUARES, ToleranceOf.NORM),
)
"""The one table of statistics, in the order in which files and tables show them."""

STATISTIC_NAMES: Final = tuple(spec.name for spec in STATISTICS)
"""The keys of the statistics in dump.json, in table order."""


def columns_of(tolerance: ToleranceOf) -> list[int]:
    """Return the positions in ``STATISTICS`` of the statistics that this tolerance judges."""
    return [column for column, spec in enumerate(STATISTICS) if spec.tolerance is tolerance]


def _merged_by(merge: Merge) -> StatisticSpec:
    return next(spec for spec in STATISTICS if spec.merge is merge)


LARGEST: Final = _merged_by(Merge.LARGEST)
SMALLEST: Final = _merged_by(Merge.SMALLEST)
NORM: Final = _merged_by(Merge.ROOT_OF_SQUARES)
"""The statistics that formulas need by themselves: the extremes, and the L2 norm as the scale of a tensor."""

NORM_COLUMN: Final = STATISTICS.index(NORM)
"""The position of the L2 norm in the table."""


class TensorMeta(NamedTuple):
    """Description of a tensor without its values: framework type ("torch.Tensor"), dtype as the framework prints it,
    shape.
    """

    type: str
    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool | None = None


class TensorStats(NamedTuple):
    """The statistics of one tensor, in the order of ``STATISTICS``; None where the module table defines no value.

    ``norm`` is the L2 norm. All numbers are in the unit of the data.
    """

    max: Number | None = None
    min: Number | None = None
    mean: float | None = None
    norm: float | None = None


class RawStats(NamedTuple):
    """Statistics before rounding, in the order of ``STATISTICS``; complex elements count by magnitude.

    A backend fills in what it measured in float64, or in the best format it has. None means that a statistic is not
    measured.
    """

    max: Number
    min: Number
    mean: float
    norm: float


NO_STATS: Final = TensorStats()
"""The statistics of a tensor without elements: None throughout."""

RAW_NAN: Final = RawStats._make([math.nan] * len(STATISTICS))
"""The statistics of a tensor with a NaN."""


def set_statistics(node: dict[str, Any], values: Iterable[Any]) -> None:
    """Write statistics, in table order, into the record of a tensor.

    The names are written out because this runs for every tensor, and a loop over the table takes twice as long.
    """
    node["Max"], node["Min"], node["Mean"], node["Norm"] = values


def repeated(raw: RawStats, times: int) -> RawStats:
    """Return the statistics of a tensor in which every element occurs ``times`` times, from those of its elements."""
    factor = math.sqrt(times)
    values: tuple[Any, ...] = raw
    return RawStats._make(
        value * factor if spec.merge is Merge.ROOT_OF_SQUARES and value is not None else value
        for spec, value in zip(STATISTICS, values, strict=True)
    )


def round_statistic(value: float, dtype: DType, precision: Precision = "low") -> float:
    """Return a mean or norm, given in double, rounded as the module table says for a tensor of ``dtype``."""
    if dtype.digits == 0 or dtype.digits == 53:
        return value
    target = dtype if precision == "low" and dtype.digits in (8, 11) else FLOAT32
    for candidate in (target, FLOAT32):
        rounded = round_to(candidate, value)
        if math.isfinite(rounded) or not math.isfinite(value):
            return rounded
    return value


def finish(raw: RawStats, dtype: DType, precision: Precision = "low") -> TensorStats:
    """Turn the measured values of a non-empty tensor into its ``TensorStats``.

    A NaN in the elements makes every statistic NaN, bool has statistics of single elements only, and statistics of
    floats are rounded as the module table says.
    """
    if dtype.kind is DtypeKind.BOOL:
        return TensorStats._make(_per_kind(raw, bool, _nothing))
    if dtype.kind is DtypeKind.INT:
        return TensorStats._make(_per_kind(raw, int, _unchanged))
    if math.isnan(raw.max) or math.isnan(raw.min) or math.isnan(raw.norm):
        return TensorStats._make(_per_kind(raw, _nan, _nan))

    def rounded(value: float) -> float:
        return round_statistic(value, dtype, precision)

    def magnitude(value: float) -> float:
        return round_statistic(float(value), dtype, "high")

    return TensorStats._make(_per_kind(raw, magnitude if dtype.kind is DtypeKind.COMPLEX else float, rounded))


def _per_kind(
    raw: RawStats, of_element: Callable[[Number], Number], of_sum: Callable[[float], float | None]
) -> Iterator[Any]:
    """Convert statistics of single elements by ``of_element`` and statistics of sums by ``of_sum``; None stays None."""
    values: tuple[Number | None, ...] = raw
    for spec, value in zip(STATISTICS, values, strict=True):
        convert: Callable[[Any], Any] = of_element if spec.tolerance is ToleranceOf.ELEMENT else of_sum
        yield None if value is None else convert(value)


def _nothing(value: float) -> None:
    return None


def _nan(value: float) -> float:
    return math.nan


def _unchanged(value: float) -> float:
    return value
