"""The rows of ``token_comparison.csv``: every saved value of sequences, compared token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, fields
from typing import Any

import numpy as np

from msprobe.core.errors import ReadError
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.saved_values.folder import SavedValue, SaveKey, Values, order_of
from msprobe.saved_values.sequences import ALL, SequenceGap, compare_sequences, not_compared

COLUMNS = ("name", "step", "rank", "micro_step", "id", *(one.name for one in fields(SequenceGap)))
Row = tuple[str, SaveKey, SequenceGap]


def token_names(sides: tuple[Values, Values], mask: str) -> list[str]:
    """Return the names of values of sequences: those that have the shape of the mask on a side.

    The mask is one of them where it holds weights: its zeros say where tokens are, its weights may differ.

    Raises:
        ReadError: no side has such a mask, or no value has its shape.
    """
    if not any(mask in side for side in sides):
        saved = ", ".join(sorted(sides[0].keys() | sides[1].keys()))
        raise ReadError(f"no value is named {mask}; saved are {saved}")
    names = sorted((sides[0].keys() | sides[1].keys()) - {mask})
    found = [name for name in names if any(_has_shape_of(side, name, sides, mask) for side in sides)]
    if not found:
        raise ReadError(f"no value has the shape of {mask}; name the mask of the tokens that were saved")
    weighted = any(_has_weights(value) for side in sides for value in side.get(mask, {}).values())
    return sorted([*found, mask]) if weighted else found


def token_rows(sides: tuple[Values, Values], names: list[str], mask: str, computed_in: str) -> Iterator[Row]:
    """Yield the rows of all values of sequences, in the order of steps."""
    for name in names:
        first, second = (side.get(name, {}) for side in sides)
        for key in sorted(first.keys() | second.keys(), key=order_of):
            for gap in _gaps(sides, mask, key, (first.get(key), second.get(key)), computed_in):
                yield name, key, gap


def line(row: Row) -> tuple[Any, ...]:
    """Return the cells of a row, in the order of ``COLUMNS``."""
    return (row[0], *row[1], *astuple(row[2]))


def place(row: Row) -> str:
    """Return where a row lies, down to its first token that differs."""
    name, (step, rank, micro, key), gap = row
    words = f"step {step} rank {rank} micro step {micro} {name}{'' if key == '0' else f'.{key}'}"
    words += "" if gap.sequence == ALL else f" sequence {gap.sequence}"
    return words if gap.first_token is None else f"{words} token {gap.first_token}"


def summary(name: str, rows: list[Row]) -> str:
    """Return how many sequences of a name differ, the largest gap, and the mean KL."""
    gaps = [(row, row[2]) for row in rows if row[2].sequence != ALL]
    wrong = sum(gap.level != "pass" for _, gap in gaps)
    text = f"{name}: {len(gaps)} sequences, {wrong} differ"
    measured = [(row, gap) for row, gap in gaps if gap.largest_gap is not None]
    if measured:
        row, worst = max(measured, key=lambda each: each[1].largest_gap or 0.0)
        at = (row[0], row[1], SequenceGap(worst.sequence, "", None, None, None, None, worst.worst_token, "", ""))
        kl = [gap.kl for _, gap in measured if gap.kl is not None]
        text += f"; largest gap {worst.largest_gap:.4g}"
        text += f" at {place(at).replace(f' {name}', '', 1)}" if worst.largest_gap else ""
        text += f"; KL {sum(kl) / len(kl):.4g}" if kl else ""
    return text


def _has_shape_of(side: Values, name: str, sides: tuple[Values, Values], mask: str) -> bool:
    for key, value in side.get(name, {}).items():
        masks = _mask_of(side, mask, key) or next((found for one in sides if (found := _mask_of(one, mask, key))), None)
        if (
            masks is not None
            and (shape := value.shape()) == masks.shape()
            and shape is not None
            and len(shape) in (1, 2)
        ):
            return True
    return False


def _has_weights(mask: SavedValue) -> bool:
    try:
        return not np.isin(mask.read(), (0, 1)).all()
    except ReadError:  # told with each value that it masks
        return False


def _mask_of(side: Values, mask: str, key: SaveKey) -> SavedValue | None:
    """Return the mask of a value: that of its own id, or the only one of its micro step."""
    masks = side.get(mask, {})
    return masks.get(key, masks.get((*key[:3], "0")))


def _gaps(
    sides: tuple[Values, Values],
    mask: str,
    key: SaveKey,
    values: tuple[SavedValue | None, SavedValue | None],
    computed_in: str,
) -> list[SequenceGap]:
    """Return the rows of one value. A side without a mask uses that of the other."""
    first, second = values
    if first is None or second is None:
        return [not_compared(f"only in the {'golden' if first is None else 'target'} folder", "missing")]
    own = [_mask_of(side, mask, key) for side in sides]
    masks = own[0] or own[1], own[1] or own[0]
    if masks[0] is None or masks[1] is None:
        return [not_compared(f"no {mask} was saved with it", "missing")]
    try:
        arrays = first.read(), second.read()
        filters = masks[0].read(), masks[1].read()
        dtypes = [_dtype(value, array, computed_in) for value, array in zip((first, second), arrays, strict=True)]
        return compare_sequences(arrays[0], arrays[1], filters, (dtypes[0], dtypes[1]))
    except ReadError as error:
        return [not_compared(error.error_info)]


def _dtype(value: SavedValue, array: Any, computed_in: str) -> str:
    """Return the type in which a value was computed: that of its file, or a coarser one that the user names."""
    saved = value.dtype or str(array.dtype.name)
    return computed_in if array.dtype.kind == "f" and unit_roundoff(computed_in) > unit_roundoff(saved) else saved
