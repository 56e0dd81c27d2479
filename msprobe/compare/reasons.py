"""Why a row is not a pass, in one sentence."""

from __future__ import annotations

import math
from typing import Any

from msprobe.compare.items import Leaf
from msprobe.numerics.verdict import Kind, Measured, Role

_SHOWN = 60


def reason(
    kind: Kind, row: int, measured: Measured, ours: Leaf | None, theirs: Leaf | None
) -> str:
    """The sentence for a row of this kind."""
    left, right = _raw(ours), _raw(theirs)
    if ours is None or theirs is None:
        return f"only the {'golden' if ours is None else 'target'} run has this value"
    if kind is Kind.VALUE:
        return _value_reason(row, measured)
    if kind is Kind.SHAPE:
        return f"shape {_field(left, 'shape')} in the target, {_field(right, 'shape')} in the golden run"
    if kind is Kind.DTYPE:
        return f"dtype {_field(left, 'dtype')} in the target, {_field(right, 'dtype')} in the golden run"
    if kind is Kind.ARGUMENT:
        return f"argument {_argument(left, right)} in the target, {_argument(right, left)} in the golden run"
    if kind is Kind.NON_FINITE:
        return "NaN or infinity where the other run has none or another one"
    if kind in (Kind.MISSING_IN_TARGET, Kind.MISSING_IN_GOLDEN):
        side = "target" if kind is Kind.MISSING_IN_TARGET else "golden run"
        return f"no value (null) in the {side}, a value in the other"
    return "values are missing on a side, so this row could not be checked"


def _value_reason(row: int, measured: Measured) -> str:
    worst = float(measured.worst[row])
    if math.isinf(worst):
        return "the checksums differ"
    parts = (("largest element", measured.element), ("mean", measured.mean), ("norm", measured.norm))
    name, _ = max(((name, float(values[row])) for name, values in parts), key=lambda part: part[1])
    given = measured.role[row] != Role.RESULT
    tail = "" if given else ", more than rounding and its inputs explain"
    return f"{name} differs by {worst:.3g} of the tensor's scale{tail}"


def _raw(leaf: Leaf | None) -> Any:
    return None if leaf is None else leaf.raw


def _field(raw: Any, name: str) -> object:
    return raw.get(name) if isinstance(raw, dict) else None


def _argument(raw: Any, other: Any) -> str:
    if isinstance(raw, dict):
        for key in ("type", "value", "group_ranks", "format", "p2p", "requires_grad"):
            if key in raw and (not isinstance(other, dict) or other.get(key) != raw[key]):
                text = f"{key} {raw[key]}" if key not in ("value", "type") else str(raw[key])
                return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    text = str(raw.get("value", raw) if isinstance(raw, dict) else raw)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
