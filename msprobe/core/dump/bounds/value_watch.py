"""Watch the recorded values of a training for a reason to write the last steps: a NaN, an infinity, a spike.

A NaN counts in any tensor. An infinity counts in the result of a call that got finite values only: models mask with
infinities, which they pass as an argument. A spike is a norm of a result far above what the same call had in the steps
before, by the rule of the monitor (``RULE``); results are watched because what goes into a call came out of another.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median
from typing import Any, Final, NamedTuple, Protocol

from msprobe.core.interruption import import_whole
from msprobe.core.store.record_walk import is_tensor, values_below

RULE: Final = "msprobe.monitor.alerts.robust:Levels"
MOST_SERIES: Final = 50_000
"""How many values have a history of their own, which takes about 1.5 kB each; further ones are not watched."""
_INPUTS: Final = ("input", "parameters")


class Reason(NamedTuple):
    """Why steps are written: one of the kinds of ``ring.on``, and a sentence."""

    kind: str
    text: str


class SpikeRule(Protocol):
    """Knows what was usual of many values (``monitor.alerts.robust.Levels``)."""

    noise: float

    def observe(self, step: int, key: Any, value: float, floor: float) -> str:
        """Return why the value is a spike; "" where it is none."""
        ...


class ValueWatch:
    """See the records of each step, and find a reason in them.

    Args:
        kinds: which reasons count.
    """

    def __init__(self, kinds: Collection[str]) -> None:
        self._nan = "nan" in kinds
        self._rule: SpikeRule | None = _rule() if "spike" in kinds else None
        self._series: set[tuple[str, str]] = set()
        self._norms: list[tuple[str, str, float]] = []
        self._odd = ""

    def see(self, name: str, body: Any) -> None:
        """See the record of one call: its results have norms."""
        if self._rule is None:
            return
        for section, node in body.items():
            if section.startswith(_INPUTS):
                continue
            if type(node) is list and len(node) == 1 and type(node[0]) is dict and "Norm" in node[0]:
                self._note(name, f"{section}.0", node[0])  # most calls have one result
            else:
                for path, _, raw in values_below(node, section):
                    self._note(name, path, raw)

    def see_odd(self, name: str, body: Any) -> None:
        """See the record of one call in which something is not finite."""
        if not self._nan or self._odd:
            return
        leaves = values_below(body)
        finite = all(_is_finite(raw) for path, _, raw in leaves if path.startswith(_INPUTS))
        for path, _, raw in leaves:
            if is_tensor(raw) and _has_nan(raw):
                self._odd = f"{name}: {path} holds NaN"
                return
            if finite and not path.startswith(_INPUTS) and not _is_finite(raw):
                self._odd = f"{name}: {path} holds an infinity, and every input is finite"
                return

    def conclude(self, step: int) -> list[Reason]:
        """Return the reasons in what was seen since the last conclusion, at most one of each kind."""
        odd, self._odd = self._odd, ""
        norms, self._norms = self._norms, []
        spike = self._first_spike(step, norms)
        return [Reason(kind, text) for kind, text in (("nan", odd), ("spike", spike)) if text]

    def forget(self) -> None:
        """Forget what was seen since the last conclusion: the step does not count."""
        self._odd = ""
        self._norms.clear()

    def _note(self, name: str, path: str, raw: dict[str, Any]) -> None:
        norm = raw.get("Norm")
        if type(norm) is float and norm - norm == 0.0 and "loat" in str(raw.get("dtype")):
            self._norms.append((name, path, norm))

    def _first_spike(self, step: int, norms: list[tuple[str, str, float]]) -> str:
        """Return the first spike among the norms of a step in words, and let each of them enter its history."""
        if self._rule is None or not norms:
            return ""
        floors = {backward: _floor(norms, backward, self._rule.noise) for backward in (False, True)}
        first = ""
        for name, path, norm in norms:
            key = name, path
            if key not in self._series and len(self._series) >= MOST_SERIES:
                continue
            self._series.add(key)
            why = self._rule.observe(step, key, norm, floors[_is_backward(name)])
            if why and not first:
                first = f"{name}: Norm of {path} {why}"
        return first


def _rule() -> SpikeRule:
    module, _, name = RULE.partition(":")
    rule: SpikeRule = getattr(import_whole(module), name)()
    return rule


def _floor(norms: list[tuple[str, str, float]], backward: bool, noise: float) -> float:
    values = [norm for name, _, norm in norms if _is_backward(name) == backward]
    return noise * median(values) if values else 0.0


def _is_backward(name: str) -> bool:
    return ".backward" in name or ".parameters_grad" in name


def _is_finite(raw: dict[str, Any]) -> bool:
    for key in ("Max", "Min", "value"):
        value = raw.get(key)
        if type(value) is float and value - value != 0.0:  # of infinities and NaN the difference is NaN
            return False
    return True


def _has_nan(raw: dict[str, Any]) -> bool:
    return any(type(value) is float and value != value for value in (raw.get("Max"), raw.get("Min"), raw.get("value")))
