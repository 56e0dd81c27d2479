"""Makes the rows of a trend database from one dump, and the tags of its targets.

``trend_rows`` makes a row from the statistics of a value of a call in a micro step.

Rows are written for tensors of float16, bfloat16 and float32 that stand directly in the inputs, outputs, parameters or
parameter gradients of a call, not for tensors inside of lists or keyword arguments.

``tags_of`` makes the tags of a target, by which a viewer filters: (name, category) pairs from the parts of its name.

=========  ===================================================================
index      the last two parts: ``input.0``, ``parameters.weight``
default    ``Module`` or ``Cell``; ``parameters``
layer      a part and the number behind it: ``layers.3``
module     each run of other parts of a module's name: ``mlp.Linear``
function   a function's name without its index: ``Functional.linear``
=========  ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.errors import ReadError, json_text
from msprobe.core.naming.micro_steps import MicroSteps, OneStep
from msprobe.core.naming.names import MODULE_PREFIXES, ApiName, DebugName, ModuleName, Phase
from msprobe.core.naming.parser import NameSyntaxError, is_number, parse_entry
from msprobe.core.store.reader import Dump
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.statistics import STATISTIC_NAMES, recorded_number
from msprobe.trend.optimizer_steps import OptimizerSteps
from msprobe.trend.targets import Tag

_FORWARD, _BACKWARD, _RECOMPUTE, _GRADIENT = 1, 2, 3, 4
_DTYPES_WITH_ROWS = {"float16", "bfloat16", "float32"}
COLUMN_STATISTICS = sorted(STATISTIC_NAMES, key=lambda name: name != "Norm")
"""Statistics in the order of the columns of a trend database: the published format begins with the norm."""
_SLOTS = {"input_args": "input", "input": "input", "output": "output"}
Row = tuple[int, str, int, int, list[Any]]
"""metric_id, target_name, micro step, number of the call, and its statistics as recorded, in the order of
``COLUMN_STATISTICS``."""


@dataclass(frozen=True, slots=True)
class TrendRows:
    """The rows of one dump, sorted by metric and then in the order of the dump.

    Attributes:
        rows: one per value.
        micro_steps: how many micro steps the dump has.
        outside: how many calls belong to no micro step.
        unlike_roots: whether different modules begin the micro steps.
    """

    rows: list[Row]
    micro_steps: int
    outside: int = 0
    unlike_roots: bool = False


def trend_rows(dump: Dump, mapping: Mapping[str, str], *, divided: bool | None) -> TrendRows:
    """Return the rows of a dump.

    Args:
        dump: a loaded dump.
        mapping: texts to replace in the names of calls, with their replacements.
        divided: whether the calls are divided into micro steps; None for steps of the optimizer.

    Raises:
        ReadError: the mapping turns a name into a text that is not the name of a call.
        ValueError: a statistic is no number.
    """
    steps: MicroSteps | OptimizerSteps | OneStep = OneStep()
    if divided is None:
        steps = OptimizerSteps(dump)
    elif divided and dump.construct:
        steps = MicroSteps(dump.construct)
    rows: list[Row] = []
    outside = 0
    for key, body in dump.data.items():
        entry = _entry(key)
        if entry is None or not isinstance(body, dict):
            continue
        position = steps.find(entry)
        if position is None:
            outside += 1
            continue
        metric = _metric(entry, body)
        stem = _renamed(key, mapping).stem if mapping else entry.stem
        rows += [(metric, f"{stem}.{path}", *position, _statistics(leaf)) for path, leaf in _leaves(body, metric)]
    rows.sort(key=lambda row: row[0])
    return TrendRows(rows, steps.count, outside, steps.unlike_roots)


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
            f"the mapping turns {json_text(key)} into {json_text(name)}, which is no name of a call; correct --mapping"
        )
    return entry


def _metric(entry: ApiName | ModuleName, body: Mapping[str, Any]) -> int:
    if entry.phase is Phase.PARAMETERS_GRAD:
        return _GRADIENT
    if entry.phase is Phase.BACKWARD:
        return _BACKWARD
    return _RECOMPUTE if body.get("is_recompute") is True else _FORWARD


def _leaves(body: Mapping[str, Any], metric: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and record of each tensor that gets a row."""
    if metric == _GRADIENT:
        for name, gradient in body.items():
            leaf = gradient[0] if isinstance(gradient, list) and gradient else gradient
            if _has_row(leaf):
                yield name, leaf
        return
    for key, slot in _SLOTS.items():
        values = body.get(key)
        for position, leaf in enumerate(values if isinstance(values, list) else ()):
            if _has_row(leaf):
                yield f"{slot}.{position}", leaf
    parameters = body.get("parameters")
    for name, leaf in (parameters if isinstance(parameters, dict) else {}).items():
        if _has_row(leaf):
            yield f"parameters.{name}", leaf


def _has_row(leaf: Any) -> bool:
    if not isinstance(leaf, dict) or not str(leaf.get("type")).endswith("Tensor"):
        return False
    dtype = find_dtype(str(leaf.get("dtype")))
    return dtype is not None and dtype.name in _DTYPES_WITH_ROWS


def _statistics(leaf: Mapping[str, Any]) -> list[Any]:
    values = [leaf.get(name) for name in COLUMN_STATISTICS]
    for value in values:
        if type(value) is not float:
            recorded_number(value, leaf.get("dtype"))
    return values


def tags_of(target: str) -> list[Tag]:
    """Return the tags of a target such as ``Module.layers.3.mlp.Linear.input.0``, each once."""
    parts = target.split(".")
    tags = [(".".join(parts[-2:]), "index")]
    if "parameters" in parts:
        tags.append(("parameters", "default"))
    prefix, inner = parts[0], parts[1:-2]
    if prefix not in MODULE_PREFIXES:
        tags.append((".".join(parts[:-2]), "function"))
        return tags
    tags.append((prefix, "default"))
    return list(dict.fromkeys(tags + _inside(inner)))


def _inside(parts: list[str]) -> list[Tag]:
    """Return the layers and modules in the parts between prefix and index; a number after a number is ignored."""
    tags: list[Tag] = []
    run: list[str] = []
    for part in parts:
        if not is_number(part):
            run.append(part)
        elif run:
            *above, name = run
            tags += [*_module(above), (f"{name}.{part}", "layer")]
            run = []
    return tags + _module(run)


def _module(run: list[str]) -> list[Tag]:
    return [(".".join(run), "module")] if run else []
