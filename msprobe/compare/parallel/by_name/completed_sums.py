"""What collectives made of partial sums, and reductions of the products in parallel layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.store.record_walk import is_tensor, leaves
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.leaves import as_float, is_shape

COLLECTIVE = "Distributed."
COLUMN, ROW = "ColumnParallel", "RowParallel"
_CLOSE = 1e-6
_REDUCTIONS = frozenset({"all_reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor"})
_Raw = dict[str, Any]
_Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """What a collective made of the values that went into it."""

    collective: str
    raw: _Raw

    def in_place_of(self, part: _Raw) -> _Raw:
        """Return the record of the whole, with the flag of a part: a collective works without gradients."""
        return {**self.raw, **{key: part[key] for key in ("requires_grad",) if key in part}}


def completed_sums(ranks: Sequence[Mapping[str, Any]]) -> dict[_Values, Completed]:
    """Return, by the values that went into a collective on the first rank, what came out of it on all ranks alike."""
    completed: dict[_Values, Completed] = {}
    for name, body in ranks[0].items():
        if not name.startswith(COLLECTIVE):
            continue
        sent = _first_tensor(name, body, "input_args") or _first_tensor(name, body, "input_kwargs")
        received = _common_result(name, ranks)
        if sent is not None and received is not None:
            completed.setdefault(values_of(sent), Completed(name, received))
    return completed


def reductions_by_layer(ranks: Sequence[Mapping[str, Any]], parents: Mapping[str, str]) -> dict[str, Completed]:
    """Return the first reduction in each parallel layer, by the name of the layer's call."""
    reductions: dict[str, Completed] = {}
    for name in ranks[0]:
        layer = parents.get(name, "")
        if not name.startswith(COLLECTIVE) or not (ROW in layer or COLUMN in layer):
            continue
        received = _common_result(name, ranks) if function_of(name) in _REDUCTIONS else None
        if received is not None:
            reductions.setdefault(layer, Completed(name, received))
    return reductions


def _common_result(name: str, ranks: Sequence[Mapping[str, Any]]) -> _Raw | None:
    """Return what came out of a collective; None where the ranks do not agree on it."""
    received, *others = (_first_tensor(name, rank.get(name), "output") for rank in ranks)
    if received is None or any(other is None or not close_records(received, other) for other in others):
        return None
    return received


def function_of(name: str) -> str:
    """Return the function that a call calls."""
    return name.split(".", 2)[1]


def _first_tensor(name: str, body: Any, section: str) -> _Raw | None:
    values = leaves(name, {section: body.get(section)}) if isinstance(body, Mapping) else []
    return next((leaf.raw for leaf in values if is_tensor(leaf.raw) and is_shape(leaf.raw.get("shape"))), None)


def values_of(raw: _Raw) -> _Values:
    """Return the shape and the statistics of a tensor: what tells it from other ones."""
    return (str(raw["shape"]), *(as_float(raw.get(name)) for name in STATISTIC_NAMES))


def close_records(left: _Raw, right: _Raw) -> bool:
    """Return whether two tensors have one shape, and statistics that differ by rounding at most."""
    if left.get("shape") != right.get("shape"):
        return False
    return all(_close_numbers(left.get(name), right.get(name)) for name in STATISTIC_NAMES)


def _close_numbers(left: Any, right: Any) -> bool:
    if left == right or (left != left and right != right):
        return True
    return math.isclose(as_float(left), as_float(right), rel_tol=_CLOSE)
