"""Calls between the backward passes and the optimizer that explain a later one without being connected with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.compare.after_backward.gradient_trails import calls_after_backward
from msprobe.compare.comparison import Comparison
from msprobe.core.naming.names import is_communication
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import element_count

if TYPE_CHECKING:
    from msprobe.compare.after_backward.numbers_of_python import MadeNumber


def maker_of_argument(comparison: Comparison, entry: int, row: int) -> MadeNumber | None:
    """Return the call from which a number of Python follows that an entry gets, and that differs."""
    leaves = comparison.table.target[row], comparison.table.golden[row]
    given = [leaf.raw.get("value") for leaf in leaves if leaf is not None and isinstance(leaf.raw, dict)]
    numbers = [number for number in given if isinstance(number, float)]
    target, golden = comparison.table.entries[entry][:2]
    if len(numbers) < 2 or target is None or golden is None:
        return None
    from msprobe.compare.after_backward.numbers_of_python import maker_of_number  # loaded for such a number only

    dumps = comparison.target, comparison.golden
    made = maker_of_number(dumps, (target, golden), (numbers[0], numbers[1]))
    return made if made is not None and made.call in comparison.table.numbers_by_name[0] else None


def collective_of_one_side(comparison: Comparison, entry: int, row: int) -> int | None:
    """Return the last collective before an entry that one side alone makes, of a tensor that the wrong one of ``row``
    may hold: what puts tensors together leaves no record. None for entries before the end of the backward passes."""
    table, wrong = comparison.table, comparison.table.golden[row]
    if wrong is None or table.entries[entry].target not in calls_after_backward(comparison.target):
        return None
    size = element_count(wrong.raw)
    for number in range(entry - 1, -1, -1):
        pair = table.entries[number]
        if pair.of_both or not is_communication(pair.name):
            continue
        leaves = (table.target[at] or table.golden[at] for at in table.rows_of(number))
        sizes = [element_count(leaf.raw) for leaf in leaves if leaf is not None and is_tensor(leaf.raw)]
        if any(1 < own <= size for own in sizes):
            return number
    return None
