"""Which calls of one process made NaN or infinity, as far as the recorded values show: while a training runs (tasks
``overflow_check``, ``nan_check`` and ``exception_dump``), and in a dump (command ``overflow_check``).

A call *makes* such values when a result has what none of its inputs had. Values that *enter* (in a batch, a weight, the
gradient of a loss, a NaN written as an argument) and that no earlier call made are told as well. What a program does on
purpose does not count: an argument that is infinite itself (``masked_fill(mask, -inf)``), a mask whose largest value is
finite, and memory that has not been written yet.

So that the result of another call is not told twice, neither a backward nor the gradient of a parameter makes anything
where one of the calls that it depends on (``CallDependencies``) got or returned such values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.dump.tasks.judged_recorder import CallDependencies, split_name
from msprobe.core.naming.names import Phase, is_communication
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, VALUE, Leaf, is_tensor, leaves
from msprobe.core.tensors.statistics import recorded_number

_EMPTY = "empty"
_WRITERS = frozenset({"copy_", "fill_", "zero_", "ones_", "normal_", "uniform_", "random_", "fill"})
_UNFILLED = frozenset({"new_empty", "new_empty_strided"})
_NUMBERS_AS_TEXT = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "infinity": math.inf, "-infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Source:
    """A call with non-finite values that do not follow from an earlier call.

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


@dataclass(slots=True)
class _NonFinite:
    """A tensor or number that is not finite.

    Args:
        suffix: the item, such as ``output.0``.
        slot: what it is of the call.
        nan: whether it has NaN.
        infinite: whether it has infinities.
        mask: whether it is a mask: minus infinity, and a largest value that is finite.
        fingerprint: shape and statistics, by which the same tensor is recognised in another call; empty for a number.
    """

    suffix: str
    slot: str
    nan: bool
    infinite: bool
    mask: bool
    fingerprint: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Return what is not finite, in words."""
        return "NaN" if self.nan else "infinity"


def has_statistics(data: Mapping[str, Any]) -> bool:
    """Return whether any tensor of the entries has Max and Min; without one of them an infinity may be missed."""
    tensors = (leaf.raw for name, body in data.items() for leaf in leaves(name, body) if is_tensor(leaf.raw))
    return any("Max" in raw and "Min" in raw for raw in tensors)


def find_source(data: Mapping[str, Any]) -> Source | None:
    """Return the first call of a process with non-finite values, None where all values are finite.

    Args:
        data: its entries by name, in the order of execution.

    Raises:
        ReadError: a record is nested too deep.
        ValueError: a statistic is no number.
    """
    search, waiting = SourceSearch(), list[tuple[int, str, Any]]()
    for position, (name, body) in enumerate(data.items()):
        source, waits = search.judge(name, body, position)
        if waits:
            waiting.append((position, name, body))
        if source is not None:
            break
    else:
        source = None
    late = (search.judge(name, body, position, final=True)[0] for position, name, body in waiting)
    return min(filter(None, (source, *late)), key=lambda each: each.entry, default=None)


class SourceSearch:
    """Judges the calls of one process in their order.

    Attributes:
        first: the first source.
    """

    def __init__(self) -> None:
        self.first: Source | None = None
        self._unwritten: set[tuple[Any, ...]] = set()
        self._deliberate_infinity = False
        self._dependencies = CallDependencies()

    def judge(
        self, name: str, body: Mapping[str, Any], position: int = 0, final: bool = False
    ) -> tuple[Source | None, bool]:
        """Return whether a call that is over is a source: one that made non-finite values, or the first that got some.

        The second item says whether the call can be judged only when more calls are over.

        Args:
            name: the name of the entry.
            body: its record.
            position: that of the entry.
            final: no call follows, so that waiting is of no use.

        Raises:
            ReadError: the record is nested too deep.
            ValueError: a statistic is no number.
        """
        values = [value for leaf in leaves(name, body) if (value := _non_finite(leaf)) is not None]
        owner, _, phase = split_name(name)
        if not values:
            self._dependencies.record(name, True)
            return None, False
        api = _function(owner)
        if api.startswith(_EMPTY) or api in _UNFILLED:
            self._unwritten.update(value.fingerprint for value in values if value.fingerprint)
            return None, False
        values = [
            value
            for value in values
            if value.fingerprint not in self._unwritten and not (api in _WRITERS and value.suffix == "input.0")
        ]
        entering = self._entering(values, phase)
        results = [value for value in values if value.slot in (OUTPUT, PARAMETER_GRAD)]
        sound = self._dependencies.is_sound(name)
        self._dependencies.record(name, entering is None and not results)
        if entering is not None:
            return self._entered(name, position, entering), False
        if not results or not sound:
            return None, False
        if phase == Phase.PARAMETERS_GRAD.value and not final and not self._dependencies.is_complete(name):
            return None, True
        return self._made(name, position, values, results), False

    def _entering(self, values: list[_NonFinite], phase: str) -> _NonFinite | None:
        """Return what comes to a call from outside, or from a call that was named before."""
        given = (value for slot in (VALUE, PARAMETER, INPUT) for value in values if value.slot == slot)
        tensors = (value for value in given if value.fingerprint)
        if phase == Phase.BACKWARD.value:  # no gradient is a mask
            return next(tensors, None)
        return next((each for each in tensors if each.nan or not (each.mask or self._deliberate_infinity)), None)

    def _entered(self, name: str, position: int, value: _NonFinite) -> Source | None:
        if self.first is not None:
            return None
        word = {VALUE: "", PARAMETER: "parameter"}.get(value.slot, "input")
        reason = f"{value.text} is in its {word} {value.suffix} already; no earlier call of the step made it"
        if value.slot == VALUE:
            reason = f"{value.text} in a saved value"
        self.first = Source(position, name, value.suffix, reason, made=False)
        return self.first

    def _made(self, name: str, position: int, values: list[_NonFinite], results: list[_NonFinite]) -> Source | None:
        """Return what a call made that got nothing from outside; None where it did so on purpose."""
        given = [value for value in values if value.slot in (INPUT, PARAMETER)]
        infinite = any(value.infinite for value in given)
        argument = next((value for value in given if value.nan), None)
        for value in results:
            source: Source | None = None
            if value.nan and argument is not None:
                reason = f"NaN is in its argument {argument.suffix}, a number that the program gives"
                source = Source(position, name, argument.suffix, reason, made=False)
            elif not infinite or (value.nan and self.first is None):
                source = Source(position, name, value.suffix, _reason(name, value, infinite), made=True)
            if source is not None:
                self.first = self.first or source
                return source
        self._deliberate_infinity = self._deliberate_infinity or infinite
        return None


def _reason(name: str, value: _NonFinite, infinite_input: bool) -> str:
    """Return in words how a call made a non-finite result."""
    if is_communication(name):
        return f"{value.text} arrives in {value.suffix}; what this rank gave is finite"
    if infinite_input:
        return f"{value.text} in {value.suffix} out of infinities (a mask that hides everything, inf - inf, 0 * inf)"
    return f"{value.text} in {value.suffix}; everything it was given is finite"


def _non_finite(leaf: Leaf) -> _NonFinite | None:
    """Return a tensor or number with NaN or infinity; None for any other value."""
    raw = leaf.raw
    if not isinstance(raw, dict):
        return _non_finite_number(leaf, raw)
    if "dtype" not in raw:
        return _non_finite_number(leaf, raw.get("value"))
    if is_finite_node(raw):
        return None
    top, low = _statistic(raw.get("Max")), _statistic(raw.get("Min"))
    nan, infinite = math.isnan(top) or math.isnan(low), math.isinf(top) or math.isinf(low)
    mask = not nan and low == -math.inf and (top < math.inf or raw.get("shape") == [])
    fingerprint = tuple(str(raw.get(key)) for key in ("shape", "Max", "Min", "Norm"))
    return _NonFinite(leaf.suffix.lstrip("."), leaf.slot, nan, infinite, mask, fingerprint)


def _non_finite_number(leaf: Leaf, value: Any) -> _NonFinite | None:
    number = _number(value)
    if math.isfinite(number):
        return None
    return _NonFinite(leaf.suffix.lstrip("."), leaf.slot, math.isnan(number), math.isinf(number), False, ())


def is_finite_node(raw: Mapping[str, Any]) -> bool:
    """Return whether a tensor or number holds no infinity and no NaN, as far as it was measured.

    Raises:
        ValueError: a statistic is no number.
    """
    if "dtype" not in raw:
        return math.isfinite(_number(raw.get("value")))
    return math.isfinite(_statistic(raw.get("Max"))) and math.isfinite(_statistic(raw.get("Min")))


def _statistic(value: Any) -> float:
    """Return a statistic as a number, and 0 where there is none: an empty tensor is finite."""
    return value if type(value) is float else recorded_number(value) or 0.0


def _number(value: Any) -> float:
    """Return an argument that is a float, also where an older dump holds it as a text; 0 for anything else."""
    if isinstance(value, str):
        return _NUMBERS_AS_TEXT.get(value.lower(), 0.0)
    return value if isinstance(value, float) else 0.0


def _function(owner: str) -> str:
    """Return the name of a function, or of the class of a module: ``add`` of ``Torch.add.0``."""
    head, _, last = owner.rpartition(".")
    return head.rpartition(".")[2] if last.isdigit() else last
