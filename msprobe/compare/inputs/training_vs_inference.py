"""A model in training against the same model in an inference engine: what the two can have in common.

An engine runs forward alone, in batches of one that it may flatten to a list of tokens. So only forward calls are
compared, and shapes without axes of length 1. Names, fused layers (q, k and v in one) and missing wrappers are the
business of the layer mapping, which is inferred where none is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msprobe.compare.records.entries import EntryKey, entry_keys
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump


def forward_alone(dump: Dump) -> Dump:
    """The forward calls of a dump that no checkpoint repeats, with their tensors in squeezed shapes."""
    keys = entry_keys(dump.data, dump.construct)
    return replace(dump, data={key.name: _squeezed(dump.data[key.name]) for key in keys if _is_first(key)})


def _is_first(key: EntryKey) -> bool:
    return key.phase == Phase.FORWARD.value and not key.recompute


def _squeezed(node: Any) -> Any:
    """The record with shapes without 1; an own stack instead of recursion, as a damaged record may be deep."""
    root: list[Any] = [node]
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        holder, at = waiting.pop()
        value = holder[at]
        if isinstance(value, dict):
            made: Any = {**value}
            shape = made.get("shape")
            if isinstance(made.get("type"), str) and isinstance(shape, list):
                made["shape"] = [size for size in shape if size != 1]
                holder[at] = made
                continue
            waiting += [(made, name) for name in made]
        elif isinstance(value, list):
            made = [*value]
            waiting += [(made, number) for number in range(len(made))]
        else:
            continue
        holder[at] = made
    return root[0]
