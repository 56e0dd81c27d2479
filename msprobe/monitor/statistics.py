"""The statistics of the monitor: one table of what a row may hold.

Max, Min, Mean and Norm are those of ``core/tensors/statistics.py``, measured by the kernel that collection uses; the
others are counted beside them. A statistic that a tensor does not have is None, which files write as ``nan``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Measured = Mapping[str, Any]
"""What an adapter measured of one tensor; see ``MonitorStatistic.needs`` for the keys."""


class MonitorStatistic(NamedTuple):
    """One statistic: its name in configurations and columns, the key of what is measured, and its value."""

    name: str
    needs: str
    meaning: str
    value: Callable[[Measured], Any]


def _plain(key: str) -> Callable[[Measured], Any]:
    return lambda measured: measured.get(key)


def _share(measured: Measured) -> float | None:
    count, elements = measured.get("zeros"), measured.get("elements")
    left_out = measured.get("left_out", 0)  # zeros that a sparse tensor does not store
    return None if count is None or not elements else (count + left_out) / elements


STATISTICS: Final = (
    MonitorStatistic("min", "Min", "smallest element", _plain("Min")),
    MonitorStatistic("max", "Max", "largest element", _plain("Max")),
    MonitorStatistic("mean", "Mean", "mean, accumulated in float64", _plain("Mean")),
    MonitorStatistic("norm", "Norm", "L2 norm, accumulated in float64", _plain("Norm")),
    MonitorStatistic("zeros", "zeros", "share of elements with a magnitude below eps", _share),
    MonitorStatistic("nans", "nans", "number of NaN", _plain("nans")),
    MonitorStatistic("infs", "infs", "number of infinities", _plain("infs")),
    MonitorStatistic("id", "id", "the value of a tensor without dimensions", _plain("id")),
    MonitorStatistic("shape", "shape", "shape", _plain("shape")),
    MonitorStatistic("dtype", "dtype", "type of the elements", _plain("dtype")),
)
"""Every statistic, in the order in which the documentation lists them."""

BY_NAME: Final = {one.name: one for one in STATISTICS}
"""Those that a configuration may ask for."""

FEATURES: Final = {
    "linear_hook": (
        MonitorStatistic("sr", "sr", "Frobenius norm over spectral norm: the root of the stable rank", _plain("sr")),
        MonitorStatistic("kernel_norm", "kernel_norm", "spectral norm, by power iteration", _plain("kernel_norm")),
    ),
    "attention_hook": (
        MonitorStatistic("entropy", "entropy", "mean entropy of a row of attention, in nats", _plain("entropy")),
        MonitorStatistic("softmax_max", "softmax_max", "mean largest probability of a row", _plain("softmax_max")),
    ),
    "moe_router_weight_hook": (
        MonitorStatistic(
            "router_weight_similarity",
            "router_weight_similarity",
            "mean cosine of two different experts of a router",
            _plain("router_weight_similarity"),
        ),
    ),
    "moe_router_logit_hook": (
        MonitorStatistic(
            "per_token_expert_entropy",
            "per_token_expert_entropy",
            "mean entropy of the experts of a token, in nats",
            _plain("per_token_expert_entropy"),
        ),
    ),
}
"""What is computed of a module, by the kind of feature, which is the name of its source."""

_ALL: Final = {**BY_NAME, **{one.name: one for kind in FEATURES.values() for one in kind}}


class Features(Mapping[str, Any]):
    """The features of one call: each is the ``id`` of a tensor without dimensions, complete after ``settle``."""

    def __init__(self, measured: Mapping[str, Measured]) -> None:
        self._measured = measured

    def __getitem__(self, name: str) -> Any:
        return self._measured[name].get("id")

    def __iter__(self) -> Iterator[str]:
        return iter(self._measured)

    def __len__(self) -> int:
        return len(self._measured)


def needs_of(names: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that an adapter has to measure for these statistics."""
    return frozenset(_ALL[name].needs for name in names)


def values_of(measured: Measured | None, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values of these statistics; None throughout for a tensor that was not there."""
    if measured is None:
        return (None,) * len(names)
    return tuple([value(measured) for value in _values(names)])


@functools.cache
def _values(names: tuple[str, ...]) -> tuple[Callable[[Measured], Any], ...]:
    return tuple(_ALL[name].value for name in names)
