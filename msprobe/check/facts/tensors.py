"""Tensors of a dump as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, cast

from msprobe.check.facts.step_facts import Tensor
from msprobe.core.store.record_walk import VMAP_AXES, form_damage
from msprobe.core.tensors.statistics import PROJECTION, recorded_number


def number_of(value: Any, missing: float = math.nan, dtype: Any = None) -> float:
    """Return a recorded statistic as a number. Raises ValueError where it is none, also none of that dtype."""
    number = value if type(value) is float else recorded_number(value, dtype)
    return missing if number is None else number


def tensor_of(raw: Mapping[str, Any]) -> Tensor:
    """Return the tensor that a node describes. It is called for every value of a dump, and so takes short ways."""
    largest, smallest, mean, norm, order = map(raw.get, _STATISTICS)
    if not type(largest) is type(smallest) is type(mean) is type(norm) is type(order) is float:
        largest, smallest, mean, norm, order = (
            number_of(value, dtype=raw["dtype"]) for value in (largest, smallest, mean, norm, order)
        )
    return _tensor((*_form_of(raw), largest, smallest, mean, norm, order))


_STATISTICS = ("Max", "Min", "Mean", "Norm", PROJECTION)
_tensor = cast(Callable[[tuple[Any, ...]], Tensor], partial(tuple.__new__, Tensor))
"""Half the time of Tensor(...)."""


def _form_of(raw: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of a node: inside ``vmap``, the shape that the program sees.

    Raises ValueError where no tensor can have them.
    """
    dtype, shape = raw["dtype"], raw["shape"]
    if type(dtype) is not str or type(shape) is not list:
        raise ValueError(form_damage(raw))
    if VMAP_AXES in raw and type(raw[VMAP_AXES]) is int:
        shape = shape[raw[VMAP_AXES] :]
    return _form(dtype, tuple(shape))


@lru_cache(maxsize=4096)
def _form(dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    damage = form_damage({"dtype": dtype, "shape": list(shape)})
    if damage:
        raise ValueError(damage)
    return dtype.removeprefix("torch."), shape
