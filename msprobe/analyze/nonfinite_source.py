"""The first call of one process that made NaN or infinity, as far as the recorded values show.

A call *makes* such values when a result has what none of its inputs had. Values that *enter* (in a batch, a weight, the
gradient of a loss, a NaN written as an argument) and that no earlier call made count as well. What a program does on
purpose does not count: an argument that is infinite itself (``masked_fill(mask, -inf)``), a mask whose largest value is
finite, and memory that has not been written yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msprobe.analyze.rank_order import Event
from msprobe.compare.records.entries import stem_of
from msprobe.core.naming.names import is_communication
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, VALUE, Leaf, leaves

_EMPTY = "empty"
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "normal_", "uniform_", "random_", "fill"})
_UNFILLED = frozenset({"new_empty", "new_empty_strided"})
_NUMBERS_AS_TEXT = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "infinity": math.inf, "-infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Source:
    """The first call with non-finite values.

    Args:
        entry: its position among the entries.
        name: its name.
        slot: the item that shows them, such as ``output.0``.
        reason: what happened, in words.
        made: whether the call made them; else they entered with its inputs.
    """

    entry: int
    name: str
    slot: str
    reason: str
    made: bool

    @property
    def event(self) -> Event:
        """Return the event for ``order_events``: what entered was there before the communication of the entry."""
        return Event(self.entry, after=self.made)


@dataclass(slots=True)
class _NonFinite:
    """A tensor with values that are not finite.

    Args:
        suffix: the item, such as ``output.0``.
        nan: whether it has NaN.
        infinite: whether it has infinities.
        mask: whether it is a mask: minus infinity, and a largest value that is finite.
        fingerprint: shape and statistics, by which the same tensor is recognised in another call.
    """

    suffix: str
    nan: bool
    infinite: bool
    mask: bool
    fingerprint: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Return what is not finite, in words."""
        return "NaN" if self.nan else "infinity"


def has_statistics(dump: Dump) -> bool:
    """Return whether any tensor of the dump has Max and Min; without one of them an infinity may be missed."""
    return any("Max" in leaf.raw and "Min" in leaf.raw for leaf in _tensors(dump))


def _tensors(dump: Dump) -> Iterator[Leaf]:
    for name, body in dump.data.items():
        for leaf in leaves(name, body):
            if isinstance(leaf.raw, dict) and "dtype" in leaf.raw:
                yield leaf


def find_source(dump: Dump) -> Source | None:
    """Return the first call of this process with non-finite values, None where all values are finite.

    Raises:
        ReadError: a record is nested too deep.
    """
    return _SourceSearch(dump).run()


class _SourceSearch:
    """Searches the entries of a dump in their order."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._unwritten: set[tuple[Any, ...]] = set()
        self._deliberate_infinity = False

    def run(self) -> Source | None:
        """Return the first call with non-finite values."""
        for position, (name, body) in enumerate(self._dump.data.items()):
            items = leaves(name, body)
            api = stem_of(name).rpartition(".")[2]
            if api.startswith(_EMPTY) or api in _UNFILLED:
                self._unwritten.update(value.fingerprint for value in _non_finite(items))
                continue
            source = self._judge(position, name, [leaf for leaf in items if not _is_overwritten(api, leaf)])
            if source is not None:
                return source
        return None

    def _judge(self, position: int, name: str, items: list[Leaf]) -> Source | None:
        """Return the source when a call has non-finite values that count, else None."""
        by_slot = {slot: self._relevant(items, slot) for slot in (INPUT, PARAMETER, OUTPUT, PARAMETER_GRAD, VALUE)}
        if by_slot[VALUE]:
            saved = by_slot[VALUE][0]
            return Source(position, name, saved.suffix, f"{saved.text} in a saved value", made=False)
        inputs = by_slot[INPUT] + by_slot[PARAMETER]
        for slot, values in ((PARAMETER, by_slot[PARAMETER]), (INPUT, by_slot[INPUT])):
            entering = next(
                (value for value in values if value.nan or not (value.mask or self._deliberate_infinity)), None
            )
            if entering is not None:
                word = "parameter" if slot == PARAMETER else "input"
                reason = f"{entering.text} is in its {word} {entering.suffix} already; no recorded call made it"
                return Source(position, name, entering.suffix, reason, made=False)
        results = by_slot[OUTPUT] + by_slot[PARAMETER_GRAD]
        scalars = [
            (leaf, scalar) for leaf in items if leaf.slot == INPUT and (scalar := _non_finite_argument(leaf.raw))
        ]
        infinite_input = any(value.infinite for value in inputs) or any(math.isinf(scalar) for _, scalar in scalars)
        nan_argument = next((leaf for leaf, scalar in scalars if math.isnan(scalar)), None)
        for value in results:
            if value.nan and nan_argument is not None:
                suffix = nan_argument.suffix.lstrip(".")
                reason = f"NaN is in its argument {suffix}, a number that the program gives"
                return Source(position, name, suffix, reason, made=False)
            if value.nan or not infinite_input:
                return Source(position, name, value.suffix, _reason(name, value, infinite_input), made=True)
        self._deliberate_infinity = self._deliberate_infinity or bool(results)
        return None

    def _relevant(self, items: Iterable[Leaf], slot: str) -> list[_NonFinite]:
        """Return the non-finite tensors of a slot, without memory that has not been written yet."""
        values = _non_finite(leaf for leaf in items if leaf.slot == slot)
        return [value for value in values if value.fingerprint not in self._unwritten]


def _reason(name: str, value: _NonFinite, infinite_input: bool) -> str:
    """Return in words how a call made a non-finite result."""
    if is_communication(name):
        return f"{value.text} arrives in {value.suffix}; what this rank gave is finite"
    if infinite_input:
        return f"{value.text} in {value.suffix} out of infinities (a mask that hides everything, inf - inf, 0 * inf)"
    return f"{value.text} in {value.suffix}; everything it was given is finite"


def _non_finite(items: Iterable[Leaf]) -> list[_NonFinite]:
    """Return the tensors that have NaN or infinity."""
    result = []
    for leaf in items:
        raw = leaf.raw
        if not isinstance(raw, dict) or "dtype" not in raw:
            continue
        top, low = _number(raw.get("Max")), _number(raw.get("Min"))
        nan, infinite = math.isnan(top) or math.isnan(low), math.isinf(top) or math.isinf(low)
        if nan or infinite:
            mask = not nan and low == -math.inf and (top < math.inf or raw.get("shape") == [])
            fingerprint = tuple(str(raw.get(key)) for key in ("shape", "Max", "Min", "Norm"))
            result.append(_NonFinite(leaf.suffix.lstrip("."), nan, infinite, mask, fingerprint))
    return result


def _is_overwritten(api: str, leaf: Leaf) -> bool:
    """Return whether a call writes an input without reading it."""
    return api in _WRITERS and leaf.suffix == ".input.0"


def _non_finite_argument(raw: Any) -> float:
    """Return an argument that is a number, no tensor, and not finite; 0 for any other."""
    value = raw.get("value") if isinstance(raw, dict) and "dtype" not in raw else raw
    number = _number(value)
    return 0.0 if math.isfinite(number) else number


def _number(value: Any) -> float:
    """Return a recorded float, also where an older dump holds it as a text; 0 for anything else."""
    if isinstance(value, str):
        return _NUMBERS_AS_TEXT.get(value.lower(), 0.0)
    return value if isinstance(value, float) else 0.0
