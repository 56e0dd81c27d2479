"""A parameter that gets a gradient in one run alone: the call that uses it, and where the other run goes on without it.

A new parameter often changes nothing (a factor of 1, a bias of 0). Then the forward pass agrees although a call of it
is left out, and the other gradients agree or nearly do. The header of a dump says which parameters have a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from msprobe.analyze.compared_entries import ComparedEntries
from msprobe.compare.records.entries import parent_of, path_of, stem_of
from msprobe.compare.records.optimizer_steps import MODEL_PARAMETERS
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import EXACT, same_values
from msprobe.trace.trace import Call, Value

_FARTHEST = 4
"""How many calls behind the use of a parameter the other run is looked for."""


class _Lost(NamedTuple):
    """A parameter without a gradient in the run that lacks its use; that value is the one before the step."""

    name: str
    raw: Any


class LostParameters(ComparedEntries):
    """Describes the parameters that lose their gradients in one run."""

    def lost_parameter(self) -> FirstDivergence | None:
        """Describe the first parameter that gets a gradient in the golden run alone."""
        uses = ((call, one) for one in self._lost() if (call := self._use(one)) is not None)
        call, parameter = min(uses, key=lambda use: use[0].number, default=(None, None))
        if call is None or parameter is None:
            return None
        goes_on = self._goes_on(call)
        numbers = self.table.numbers_by_name
        target = None if goes_on is None else goes_on.name
        entry = numbers[1][call.name] if target is None else numbers[0][target]
        text = (
            f"the parameter {parameter.name} gets a gradient in the golden run alone, where {call.name} uses it; all "
            "values of the forward pass agree"
        )
        pair = self.table.entries[entry]._replace(target=target, golden=call.name)
        return self.build(entry, None, "missing_in_target", text, self.calling_module(entry), pair)

    def _lost(self) -> Iterator[_Lost]:
        """Yield the parameters that have no gradient in the target, and one in the golden run, by its names."""
        target, golden = (_parameters(dump) for dump in (self.comparison.target, self.comparison.golden))
        for own, raw, has_gradient in target:
            if has_gradient:
                continue
            others = [one for one in golden if _is_suffix(own, one[0]) and one[1].get("shape") == raw.get("shape")]
            if len(others) == 1 and others[0][2]:
                yield _Lost(others[0][0], raw)

    def _use(self, lost: _Lost) -> Call | None:
        """Return the first call of the golden run that gets a parameter: one in its module, or that of the module."""
        module, construct = lost.name.rpartition(".")[0], self.comparison.golden.construct
        calls = self.comparison.step_end().traces[1].calls
        around = (call for call in calls if is_module_name(call.name) and path_of(stem_of(call.name)) == module)
        inside = (call for call in calls if path_of(stem_of(parent_of(construct, call.name) or "")) == module)
        uses = (call for call in inside if any(_is_value(value, lost.raw) for value in call.given))
        return next(uses, next(around, None))

    def _goes_on(self, use: Call) -> Call | None:
        """Return the call of the target that returns what the use of a parameter does, or what is made of that; where
        the parameter changes nothing, the next call does."""
        twins = self.comparison.step_end().sinks.twins
        own = [value for call in self.comparison.step_end().traces[0].calls for value in call.returned]
        waiting = [use]
        for call in waiting:
            new = [one for one in call.returned if not any(same_values(one.raw, given.raw) for given in call.given)]
            for value, other in product(new, own):
                if element_count(value.raw) > 1 and math.isfinite(twins.distance(other.raw, value.raw)):
                    return other.call
            if len(waiting) < _FARTHEST:
                waiting += [user.call for value in call.returned for user in value.users]
        return None


def _parameters(dump: Dump) -> list[tuple[str, Any, bool]]:
    """Return the names, values and gradients of the parameters of a dump; none of a damaged one."""
    items = dump.header.get(MODEL_PARAMETERS)
    items = items if isinstance(items, list) else []
    return [
        (item["name"], item["value"], item.get("has_gradient") is not False)
        for item in items
        if isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get("value"), dict)
    ]


def _is_suffix(*names: str) -> bool:
    """Return whether one name is that of the other, perhaps below another module."""
    shorter, longer = sorted(names, key=len)
    return longer == shorter or longer.endswith(f".{shorter}")


def _is_value(value: Value, raw: Any) -> bool:
    return bool(value.raw.get("requires_grad")) and value.is_source and same_values(value.raw, raw, EXACT)
