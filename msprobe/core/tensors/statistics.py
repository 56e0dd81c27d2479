"""What is known about one tensor: its description, its four statistics, and the rules that make them comparable.

The rules, the same for every backend (a backend may compute differently, not differ):

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
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from msprobe.core.tensors.dtypes import FLOAT32, DType, Kind, round_to

Number = float | int | bool
Precision = Literal["low", "high"]
"""Of Mean and Norm: the tensor's own dtype, or float32 and better."""


class Merge(Enum):
    """How the statistic of a whole tensor follows from those of its parts (see ``numerics/merged_statistics``)."""

    LARGEST = "the largest"
    SMALLEST = "the smallest"
    WEIGHTED_MEAN = "the mean, weighted by numbers of elements"
    ROOT_OF_SQUARES = "the square root of the sum of squares"


class ToleranceOf(Enum):
    """Which tolerance judges a statistic: that of single elements, or that of sums over all elements."""

    ELEMENT = "element"
    MEAN = "mean"
    NORM = "norm"


@dataclass(frozen=True, slots=True)
class StatisticSpec:
    """One statistic of a tensor: everything that config, dump, compare, graphs and trends know about it.

    Attributes:
        name: the key in dump.json ("Max"); also the attribute of ``TensorStats``, in lower case.
        config_name: the name in ``summary_mode`` of config.json ("max").
        title: the word in column titles of the result table ("max", "l2norm").
        unit: what the number is measured in.
        merge: how the statistic of a whole follows from those of its parts.
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


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Description of a tensor without its values: framework type ("torch.Tensor"), dtype as the framework prints it,
    shape.
    """

    type: str
    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool | None = None


@dataclass(frozen=True, slots=True)
class TensorStats:
    """The four statistics; None where the table above defines no value. `norm` is L2 in the unit of the data."""

    max: Number | None = None
    min: Number | None = None
    mean: float | None = None
    norm: float | None = None


NO_STATS: Final = TensorStats()


@dataclass(frozen=True, slots=True)
class RawStats:
    """Statistics before rounding, as a backend measured them in double (or the best it has); complex elements by
    magnitude.
    """

    max: Number
    min: Number
    mean: float
    norm: float


def round_statistic(value: float, dtype: DType, precision: Precision = "low") -> float:
    """A mean or norm in double, rounded as the module table says for a tensor of `dtype`."""
    if dtype.digits == 0 or dtype.digits == 53:
        return value
    target = dtype if precision == "low" and dtype.digits in (8, 11) else FLOAT32
    for candidate in (target, FLOAT32):
        rounded = round_to(candidate, value)
        if math.isfinite(rounded) or not math.isfinite(value):
            return rounded
    return value


def finish(raw: RawStats, dtype: DType, precision: Precision = "low") -> TensorStats:
    """Turns measured values of a non-empty tensor into its `TensorStats`: NaN spreads, bool has no mean, floats are
    rounded.
    """
    if dtype.kind is Kind.BOOL:
        return TensorStats(bool(raw.max), bool(raw.min))
    if dtype.kind is Kind.INT:
        return TensorStats(int(raw.max), int(raw.min), raw.mean, raw.norm)
    if math.isnan(raw.max) or math.isnan(raw.min) or math.isnan(raw.norm):
        return TensorStats(math.nan, math.nan, math.nan, math.nan)
    highest, lowest = float(raw.max), float(raw.min)
    if dtype.kind is Kind.COMPLEX:
        highest, lowest = round_statistic(highest, dtype, "high"), round_statistic(lowest, dtype, "high")
    mean, norm = (round_statistic(value, dtype, precision) for value in (raw.mean, raw.norm))
    return TensorStats(highest, lowest, mean, norm)
