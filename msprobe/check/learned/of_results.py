"""Examples that results give: shapes and dtypes kept from input to output, rows that sum to 1, sizes, losses."""

from __future__ import annotations

import math
import re
from typing import Any

from msprobe.check.facts.calls import Call
from msprobe.check.facts.tensors import number_of
from msprobe.check.learned.table import EQUALS, HOLDS, WITHIN, SeenTable, size_step
from msprobe.trace.values import count_of

_LOSS = re.compile(r"loss|cross_entropy|kl_div")
_NEAR_ONE = 2e-3


def see_result(table: SeenTable, subject: tuple[str, str, str], call: Call, precision: str) -> None:
    """Add what the first result of a module says. ``subject``: class, pattern of the path, mode."""
    if not call.returned:
        return
    owner, path, mode = subject
    raw = call.returned[0].raw
    shape, dtype = raw.get("shape"), str(raw.get("dtype"))
    where = call.name, call.place, call.path
    if call.given:
        given = call.given[0].raw
        first = given.get("shape")
        if isinstance(first, list) and isinstance(shape, list) and len(first) > 1 and len(shape) > 1:
            table.add(("output", owner, path, "as many rows as the input", "", HOLDS), first[0] == shape[0], *where)
        flow = f"{_short(given.get('dtype'))} -> {_short(dtype)}"
        table.add(("output", owner, path, "dtype of input and result", precision, EQUALS), flow, *where)
    if "float" not in dtype or not isinstance(shape, list):
        return
    _see_rows(table, (owner, path), raw, where)
    if not table.with_sizes:
        return
    norm = number_of(raw.get("Norm"))
    if norm == norm and not math.isinf(norm):
        size = size_step(norm / math.sqrt(max(count_of(raw), 1)))
        if size is not None:
            table.add(("output", owner, path, "size of the result", mode, WITHIN), size, *where)
    elif (norm != norm and raw.get("Norm") is not None) or math.isinf(norm):
        table.add(("output", owner, path, "size of the result", mode, WITHIN), math.inf, *where)


def _see_rows(table: SeenTable, subject: tuple[str, str], raw: dict[str, Any], where: tuple[str, int, str]) -> None:
    """Add whether the rows may be distributions, as far as the mean says: they sum to 1 and have no negative part."""
    shape = raw["shape"]
    if len(shape) < 2 or not isinstance(shape[-1], int) or shape[-1] < 2:
        return
    mean, smallest = number_of(raw.get("Mean")), number_of(raw.get("Min"))
    if smallest != smallest:
        return
    is_one = smallest >= 0 and abs(mean * shape[-1] - 1.0) < _NEAR_ONE
    table.add(("output", *subject, "rows sum to 1", "", HOLDS), is_one, *where)


def see_loss(table: SeenTable, around: tuple[str, str], call: Call) -> None:
    """Add the size of a loss, if the call computes one."""
    if not table.with_sizes or not _LOSS.search(call.function) or not call.returned:
        return
    raw = call.returned[0].raw
    value = number_of(raw.get("Max"))
    size = size_step(value) if value == value else math.inf
    if count_of(raw) == 1 and size is not None:
        where = call.name, call.place, call.module
        table.add(("output", *around, f"value of {call.function}", "", WITHIN), size, *where)


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
