"""The first call of one process that made NaN or infinity, told from the recorded values alone.

A call *makes* them when a result has what nothing it was given had. Values that *come in* (a batch, a weight, the
gradient of a loss, a NaN written as an argument) with no earlier call to blame count as well. What a program does on
purpose does not: an argument that is infinite itself (``masked_fill(mask, -inf)``), a mask whose largest value is
finite, memory that nobody has written yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msprobe.analyze.communication import is_communication
from msprobe.analyze.rank_order import Event
from msprobe.compare.records.entries import stem_of
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, VALUE, Leaf, leaves

_EMPTY = "empty"
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "normal_", "uniform_", "random_", "fill"})
_UNFILLED = frozenset({"new_empty", "new_empty_strided"})
_TEXTS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "infinity": math.inf, "-infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Source:
    """The first call with non-finite values: its position, name, the place in it, and what happened there."""

    entry: int
    name: str
    slot: str
    reason: str
    made: bool

    @property
    def event(self) -> Event:
        """When it happened: what came in was there before the communication of the entry, if it has any."""
        return Event(self.entry, after=self.made)


@dataclass(slots=True)
class _Odd:
    """What is not finite in a leaf."""

    suffix: str
    nan: bool
    infinite: bool
    mask: bool
    print_: tuple[Any, ...]

    @property
    def text(self) -> str:
        return "NaN" if self.nan else "infinity"


def has_statistics(dump: Dump) -> bool:
    """Whether any tensor of the dump has both extremes recorded; without one of them an infinity may be missed."""
    return any("Max" in leaf.raw and "Min" in leaf.raw for leaf in _tensors(dump))


def _tensors(dump: Dump) -> Iterator[Leaf]:
    for name, body in dump.data.items():
        for leaf in leaves(name, body):
            if isinstance(leaf.raw, dict) and "dtype" in leaf.raw:
                yield leaf


def find_source(dump: Dump) -> Source | None:
    """The first call of this process with non-finite values, or None.

    Raises:
        ReadError: a record is nested too deep.
    """
    return _Search(dump).find()


class _Search:
    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._unwritten: set[tuple[Any, ...]] = set()
        self._excused_infinity = False

    def find(self) -> Source | None:
        for position, (name, body) in enumerate(self._dump.data.items()):
            found = leaves(name, body)
            api = stem_of(name).rpartition(".")[2]
            if api.startswith(_EMPTY) or api in _UNFILLED:
                self._unwritten.update(odd.print_ for odd in _odd(found))
                continue
            source = self._judge(position, name, [leaf for leaf in found if not _overwritten(api, leaf)])
            if source is not None:
                return source
        return None

    def _judge(self, position: int, name: str, found: list[Leaf]) -> Source | None:
        odd = {slot: self._relevant(found, slot) for slot in (INPUT, PARAMETER, OUTPUT, PARAMETER_GRAD, VALUE)}
        if odd[VALUE]:
            return Source(position, name, odd[VALUE][0].suffix, f"{odd[VALUE][0].text} in a saved value", made=False)
        given = odd[INPUT] + odd[PARAMETER]
        for slot, values in ((PARAMETER, odd[PARAMETER]), (INPUT, odd[INPUT])):
            entering = next(
                (value for value in values if value.nan or not (value.mask or self._excused_infinity)), None
            )
            if entering is not None:
                word = "parameter" if slot == PARAMETER else "input"
                reason = f"{entering.text} is in its {word} {entering.suffix} already; no recorded call made it"
                return Source(position, name, entering.suffix, reason, made=False)
        results = odd[OUTPUT] + odd[PARAMETER_GRAD]
        scalars = [(leaf, scalar) for leaf in found if leaf.slot == INPUT and (scalar := _odd_argument(leaf.raw))]
        infinite_given = any(value.infinite for value in given) or any(math.isinf(scalar) for _, scalar in scalars)
        wrong = next((leaf for leaf, scalar in scalars if math.isnan(scalar)), None)
        for value in results:
            if value.nan and wrong is not None:
                suffix = wrong.suffix.lstrip(".")
                reason = f"NaN is in its argument {suffix}, a number that the program gives"
                return Source(position, name, suffix, reason, made=False)
            if value.nan or not infinite_given:
                return Source(position, name, value.suffix, _made(name, value, infinite_given), made=True)
        self._excused_infinity = self._excused_infinity or bool(results)
        return None

    def _relevant(self, found: Iterable[Leaf], slot: str) -> list[_Odd]:
        return [odd for odd in _odd(leaf for leaf in found if leaf.slot == slot) if odd.print_ not in self._unwritten]


def _made(name: str, value: _Odd, infinite_given: bool) -> str:
    if is_communication(name):
        return f"{value.text} arrives in {value.suffix}; what this rank gave is finite"
    if infinite_given:
        return f"{value.text} in {value.suffix} out of infinities (a mask that hides everything, inf - inf, 0 * inf)"
    return f"{value.text} in {value.suffix}; everything it was given is finite"


def _odd(found: Iterable[Leaf]) -> list[_Odd]:
    odd = []
    for leaf in found:
        raw = leaf.raw
        if not isinstance(raw, dict) or "dtype" not in raw:
            continue
        top, low = _number(raw.get("Max")), _number(raw.get("Min"))
        nan, infinite = math.isnan(top) or math.isnan(low), math.isinf(top) or math.isinf(low)
        if nan or infinite:
            mask = not nan and low == -math.inf and (top < math.inf or raw.get("shape") == [])
            print_ = (str(raw.get("shape")), str(raw.get("Max")), str(raw.get("Min")), str(raw.get("Norm")))
            odd.append(_Odd(leaf.suffix.lstrip("."), nan, infinite, mask, print_))
    return odd


def _overwritten(api: str, leaf: Leaf) -> bool:
    return api in _WRITERS and leaf.suffix == ".input.0"


def _odd_argument(raw: Any) -> float:
    """An argument of the program itself that is not finite; 0 for any other."""
    value = raw.get("value") if isinstance(raw, dict) and "dtype" not in raw else raw
    number = _number(value)
    return 0.0 if math.isfinite(number) else number


def _number(value: Any) -> float:
    """What was recorded as a number; texts count, since older dumps hold them; 0 where there is none."""
    if isinstance(value, str):
        return _TEXTS.get(value.lower(), 0.0)
    return value if isinstance(value, float) else 0.0
