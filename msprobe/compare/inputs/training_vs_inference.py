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
from msprobe.core.store.record_walk import with_changed_values


def forward_alone(dump: Dump) -> Dump:
    """Return the forward calls of a dump that no checkpoint repeats, their shapes without axes of length 1.

    Raises:
        ReadError: a record is nested too deep to be one.
    """
    keys = entry_keys(dump.data, dump.construct)
    return replace(
        dump, data={key.name: with_changed_values(dump.data[key.name], _squeezed) for key in keys if _is_first(key)}
    )


def _is_first(key: EntryKey) -> bool:
    return key.phase == Phase.FORWARD.value and not key.recompute


def _squeezed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a tensor with its axes of length 1 left out of the shape; another argument stays as it is."""
    shape = value.get("shape")
    return {**value, "shape": [size for size in shape if size != 1]} if isinstance(shape, list) else value
