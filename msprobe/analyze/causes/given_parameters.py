"""Parameters among the values that are wrong first: which one a call gets, and what has changed it but no optimizer.

A parameter is known by its value. The header names every parameter as the step left it (level mix), and the calls in
place of the optimizer lead there from the value that the step began with; else the step before has left that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msprobe.compare.comparison import Comparison
from msprobe.compare.differences.parameter_updates import sums_of
from msprobe.compare.records.entries import OPTIMIZER, entry_keys, parent_of, path_of
from msprobe.compare.records.in_place_updates import InPlaceUpdates, Update
from msprobe.compare.records.optimizer_steps import optimizer_steps, parameters_after
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import PARAMETER
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Role, RowKind
from msprobe.trace.likeness import distance
from msprobe.trace.values import fingerprint

_SIDES = "target", "golden run"

if TYPE_CHECKING:
    from msprobe.compare.after_backward.numbers_of_python import MadeNumber


class GivenParameter(NamedTuple):
    """A parameter that a call gets; ``name`` is None where only its update shows that it is one."""

    name: str | None

    def note(self, *, later_step: bool) -> str:
        """Return in words what it is; ``later_step`` says that an earlier step was compared and agreed."""
        what = f"the parameter {self.name}" if self.name else "a parameter, which the step updates"
        if later_step:
            return f"{what}; the step before agrees, so its update differs, or something else changed it afterwards"
        return f"{what}; it begins differently, or was changed outside of the recorded calls"


def given_parameter(comparison: Comparison, entry: int, row: int) -> GivenParameter | None:
    """Return the parameter that a call gets as a value that differs; None where it is not known to be one."""
    table = comparison.table
    raws = comparison.table.tensors(row)
    forward = table.keys[entry].phase == Phase.FORWARD.value and table.keys[entry].parent != OPTIMIZER
    if len(raws) < 2 or not forward:
        return None
    left = comparison.earlier.left if comparison.earlier is not None else {}
    names: set[str] = set()
    updated = 0
    for side, dump in enumerate((comparison.target, comparison.golden)):
        last = InPlaceUpdates(entry_keys(dump.data, dump.construct), dump.data).last(raws[side])
        updated += last is not None and _is_parameter(dump, last)
        after = raws[side] if last is None else last.leaf.raw
        names |= {name for name, raw in parameters_after(dump).items() if _is_same(raw, after)}
        names |= {name for name, pair in left.items() if _is_same(pair[side], raws[side])}
    if len(names) == 1:
        return GivenParameter(names.pop())
    return GivenParameter(None) if updated == len(raws) else None


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    own = fingerprint(one)
    return own is not None and own == fingerprint(other)


def _is_parameter(dump: Dump, update: Update) -> bool:
    """Return whether what a call in place changes is a parameter: an optimizer makes the call, or a tensor that needs a
    gradient is changed behind the back of autograd."""
    by_hand = dump.data[update.entry].get("autograd") == "no_grad" and update.leaf.raw.get("requires_grad") is True
    return by_hand or parent_of(dump.construct, update.entry) == OPTIMIZER


def parameter_name(comparison: Comparison, entry: int, row: int) -> str | None:
    """Return the name that a parameter of a module has in the model."""
    leaf = comparison.table.target[row] or comparison.table.golden[row]
    if leaf is None or leaf.slot != PARAMETER:
        return None
    return f"{path_of(comparison.table.keys[entry].stem)}.{leaf.suffix.rpartition('.')[2]}".lstrip(".")


def changed_otherwise(comparison: Comparison, entry: int, row: int, name: str | None) -> str | None:
    """Return in words that something else than an optimizer has changed a parameter since the step before, which
    agrees; None where an optimizer may have.

    Either no optimizer holds it, and all that optimizers hold agree, as it may follow from them; or it agrees after
    the steps of the optimizers, and one run alone changes it afterwards. What no step before has shown may also begin
    apart.
    """
    now, earlier = comparison.table.tensors(row), comparison.earlier
    if name is None or earlier is None or len(now) < 2 or comparison.target.merged:
        return None
    left = earlier.left.get(name)
    before = earlier.parameters.get((comparison.table.keys[entry].stem, name.rpartition(".")[2]))
    moved: list[bool] = []
    if left is not None:
        moved = [_differ(*pair) for pair in zip(left, now, strict=True)]
    elif before is not None:
        moved = [sums_of(raw) != sums for raw, sums in zip(now, before, strict=True)]
    follows = earlier.step is not None and comparison.target.place.step == earlier.step + 1
    agreed = left is not None and distance(*left) <= comparison.judged.tolerance[row]
    afterwards = follows and agreed and sum(moved) == 1
    if not afterwards and not _is_held_by_none(comparison, name):
        return None
    if not any(moved):
        return f"no optimizer holds {name}: it begins differently, or something that is no optimizer has changed it"
    alone = f" in the {_SIDES[moved.index(True)]} alone" if sum(moved) == 1 else ""
    return (
        f"something that is no optimizer has changed {name} between the steps{alone} (a moving average, a copy, an "
        "update by hand)"
    )


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(one.get(name) != other.get(name) for name in STATISTIC_NAMES)


def _is_held_by_none(comparison: Comparison, name: str) -> bool:
    """Return whether no optimizer of both runs holds a parameter, and what they hold agrees."""
    earlier, dumps = comparison.earlier, (comparison.target, comparison.golden)
    assert earlier is not None
    named = {row: parameter_name(comparison, entry, row) for entry, row in _parameter_rows(comparison)}
    held: set[str | None] = set()
    for before, dump in zip(earlier.optimizers, dumps, strict=True):
        names = {name for step in (*before, *optimizer_steps(dump)) for name in step.parameters}
        known = parameters_after(dump).keys() or set(named.values())
        if not names or not names <= known or name not in known:
            return False  # nothing is known of them, or under other names
        held |= names
    differing = {named[row] for row in named if comparison.judged.kind[row] > RowKind.UNCHECKED}
    return name not in held and held.isdisjoint(differing)


def _parameter_rows(comparison: Comparison) -> Iterable[tuple[int, int]]:
    """Yield the entry and the row of each parameter of a module."""
    rows = (comparison.measured.role == Role.PARAMETER).nonzero()[0]
    return zip(comparison.table.entry_of_row()[rows].tolist(), rows.tolist(), strict=True)


def maker_of_argument(comparison: Comparison, entry: int, row: int) -> MadeNumber | None:
    """Return the call from which a number of Python follows that an entry gets, and that differs."""
    sides = comparison.table.target[row], comparison.table.golden[row]
    given = [leaf.raw.get("value") for leaf in sides if leaf is not None and isinstance(leaf.raw, dict)]
    numbers = [number for number in given if isinstance(number, float)]
    target, golden = comparison.table.entries[entry][:2]
    if len(numbers) < 2 or target is None or golden is None:
        return None
    from msprobe.compare.after_backward.numbers_of_python import maker_of_number  # loaded for such a number only

    dumps = comparison.target, comparison.golden
    made = maker_of_number(dumps, (target, golden), (numbers[0], numbers[1]))
    return made if made is not None and made.call in comparison.table.numbers_by_name[0] else None
