"""One dump as rows of a trend database: which value of which call, in which micro step, with which statistics.

Followed are tensors of float16, bfloat16 and float32 that stand directly in the inputs, outputs, parameters or
parameter gradients of a call, not those inside of lists or keyword arguments. Statistics are clipped to ±1e9, infinity
becomes ±(1e9 + 1), and what is NaN or not there is null: a viewer draws them on one scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.errors import ReadError, json_text
from msprobe.core.naming.model import ApiName, DebugName, ModuleName, Phase
from msprobe.core.naming.parse import NameSyntaxError, parse_entry
from msprobe.core.store.reader import Dump
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.monitor.micro_steps import MicroSteps, OneStep

LARGEST = 1e9
INFINITE = LARGEST + 1
_FORWARD, _BACKWARD, _RECOMPUTE, _GRADIENT = 1, 2, 3, 4
_FOLLOWED = {"float16", "bfloat16", "float32"}
_STATISTICS = ("Norm", "Max", "Min", "Mean")
_SLOTS = {"input_args": "input", "input": "input", "output": "output"}

Row = tuple[int, str, int, int, float | None, float | None, float | None, float | None]
"""metric_id, target_name, micro step, number of the call, and norm, max, min, mean in data units."""


@dataclass(frozen=True, slots=True)
class TrendRows:
    """The rows of one dump, by metric and then in the order of the dump.

    ``micro_steps`` is how many there are, ``unplaced`` how many calls belong to none of them, ``unlike_roots`` whether
    they were opened by different modules.
    """

    rows: list[Row]
    micro_steps: int
    unplaced: int = 0
    unlike_roots: bool = False


def trend_rows(dump: Dump, mapping: Mapping[str, str], *, divided: bool) -> TrendRows:
    """The rows of a dump; ``mapping`` replaces texts in the names of calls, ``divided`` tells micro steps apart.

    Raises:
        ReadError: a name is no name of a call after ``mapping``.
    """
    steps = MicroSteps(dump.construct) if divided and dump.construct else OneStep()
    rows: list[Row] = []
    unplaced = 0
    for key, body in dump.data.items():
        entry = _entry(key)
        if entry is None or not isinstance(body, dict):
            continue
        placed = steps.place(entry)
        if placed is None:
            unplaced += 1
            continue
        metric = _metric(entry, body)
        stem = _renamed(key, mapping).stem if mapping else entry.stem
        rows += [(metric, f"{stem}.{place}", *placed, *_four(leaf)) for place, leaf in _leaves(body, metric)]
    rows.sort(key=lambda row: row[0])
    return TrendRows(rows, steps.count, unplaced, steps.unlike_roots)


def _entry(key: str) -> ApiName | ModuleName | None:
    try:
        entry = parse_entry(key)
    except NameSyntaxError:
        return None
    return None if isinstance(entry, DebugName) else entry


def _renamed(key: str, mapping: Mapping[str, str]) -> ApiName | ModuleName:
    name = key
    for old, new in mapping.items():
        name = name.replace(old, new)
    entry = _entry(name)
    if entry is None:
        raise ReadError(
            f"the mapping makes {json_text(name)} of {json_text(key)}, which is no name of a call; correct --mapping"
        )
    return entry


def _metric(entry: ApiName | ModuleName, body: Mapping[str, Any]) -> int:
    if entry.phase is Phase.PARAMETERS_GRAD:
        return _GRADIENT
    if entry.phase is Phase.BACKWARD:
        return _BACKWARD
    return _RECOMPUTE if body.get("is_recompute") is True else _FORWARD


def _leaves(body: Mapping[str, Any], metric: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place and record of each tensor that is followed."""
    if metric == _GRADIENT:
        for name, found in body.items():
            leaf = found[0] if isinstance(found, list) and found else found
            if _is_followed(leaf):
                yield name, leaf
        return
    for key, slot in _SLOTS.items():
        values = body.get(key)
        for position, leaf in enumerate(values if isinstance(values, list) else ()):
            if _is_followed(leaf):
                yield f"{slot}.{position}", leaf
    parameters = body.get("parameters")
    for name, leaf in (parameters if isinstance(parameters, dict) else {}).items():
        if _is_followed(leaf):
            yield f"parameters.{name}", leaf


def _is_followed(leaf: Any) -> bool:
    if not isinstance(leaf, dict) or not str(leaf.get("type")).endswith("Tensor"):
        return False
    dtype = find_dtype(str(leaf.get("dtype")))
    return dtype is not None and dtype.name in _FOLLOWED


def _four(leaf: Mapping[str, Any]) -> tuple[float | None, float | None, float | None, float | None]:
    norm, largest, smallest, mean = (_drawn(leaf.get(name)) for name in _STATISTICS)
    return norm, largest, smallest, mean


def _drawn(value: Any) -> float | None:
    """A statistic as a viewer can draw it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:  # an integer too large for a float
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return None
    if math.isinf(number):
        return math.copysign(INFINITE, number)
    return min(max(number, -LARGEST), LARGEST)
