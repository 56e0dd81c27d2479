"""A parameter that one run alone uses: the call of the other run that goes on without it.

A new parameter often changes nothing (a factor of 1, a bias of 0). Then the forward pass agrees although a call of it
is left out, and the other gradients agree or nearly do. The header of a dump says which parameters have a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from msprobe.analyze.compared_entries import ComparedEntries
from msprobe.compare.records.entries import parent_of, path_of, phase_of, stem_of
from msprobe.compare.records.optimizer_steps import MODEL_PARAMETERS
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import PARAMETER
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import EXACT, same_values
from msprobe.trace.trace import Call, Value


class _Parameter(NamedTuple):
    """A parameter of the header."""

    name: str
    raw: Any
    has_gradient: bool

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]


class LostParameters(ComparedEntries):
    """Describes parameters that the target has, and does not use as the golden run does."""

    def lost_parameter(self) -> FirstDivergence | None:
        """Describe the first parameter that gets a gradient in the golden run alone, as no call of the target uses
        it."""
        places = ((call, one) for one in self._unused() if (call := self._place(one)) is not None)
        call, parameter = min(places, key=lambda place: place[0].number, default=(None, None))
        if call is None or parameter is None:
            return None
        entry, use = self.table.numbers_by_name[0][call.name], self._use_of_golden(parameter)
        text = f"the parameter {parameter.name} gets a gradient in the golden run alone: no call of the target uses it"
        text += "" if use is None else f" as {use.name} does"
        pair = self.table.entries[entry]._replace(golden=None if use is None else use.name)
        return self.build(entry, None, "missing_in_target", text, self.calling_module(entry), pair)

    def _unused(self) -> Iterator[_Parameter]:
        """Yield the parameters of the target that no call uses, where the golden run has as many elements, and more of
        them with a gradient."""
        sides = [_parameters(dump) for dump in (self.comparison.target, self.comparison.golden)]
        whole, learnt = (
            [sum(element_count(one.raw) for one in side if one.has_gradient or not learnt) for side in sides]
            for learnt in (False, True)
        )
        if whole[0] == whole[1] and learnt[0] < learnt[1]:
            lacking = (one for one in sides[0] if not one.has_gradient)
            yield from (one for one in lacking if self._use(0, one.module, one.raw) is None)

    def _use(self, side: int, module: str, raw: Any) -> Call | None:
        """Return the first call of a side that gets a parameter: one in its module, or that module, where nothing
        inside of it is recorded."""
        construct = (self.comparison.target, self.comparison.golden)[side].construct
        for call in self.comparison.step_end().traces[side].calls:
            is_alone = is_module_name(call.name) and call.begin == call.number
            around = call.name if is_alone else parent_of(construct, call.name) or ""
            if path_of(stem_of(around)) == module and any(_is_parameter(value, raw) for value in call.given):
                return call
        return None

    def _use_of_golden(self, own: _Parameter) -> Call | None:
        """Return the call of the golden run that gets the parameter of this name, perhaps below another module."""
        names = {one.module for one in _parameters(self.comparison.golden) if _is_suffix(own.name, one.name)}
        return self._use(1, names.pop(), own.raw) if len(names) == 1 else None

    def _place(self, lost: _Parameter) -> Call | None:
        """Return the call of the target that is there in place of the use of a parameter."""
        use = self._use_of_golden(lost)
        return self._like_module(lost) if use is None else self._goes_on(use)

    def _like_module(self, lost: _Parameter) -> Call | None:
        """Return the second call of a module beside that of a parameter, with one of the same shape."""
        around, shape = lost.module.rpartition(".")[0], lost.raw.get("shape")
        known: set[str] = set()
        for call in self.comparison.step_end().traces[0].calls:
            stem = stem_of(call.name)
            if not is_module_name(call.name) or path_of(stem).rpartition(".")[0] != around or not around:
                continue
            if any(value.leaf.slot == PARAMETER and value.raw.get("shape") == shape for value in call.given):
                if stem in known:
                    return call
                known.add(stem)
        return None

    def _goes_on(self, use: Call) -> Call | None:
        """Return the call of the target that returns what the use of a parameter does, or what is made of that; where
        the parameter changes nothing, the next call does."""
        twins = self.comparison.step_end().sinks.twins
        own = [value for call in self.comparison.step_end().traces[0].calls for value in call.returned]
        behind = (user.call for value in use.returned for user in value.users)
        for call in (use, *behind):
            new = [one for one in call.returned if not any(same_values(one.raw, given.raw) for given in call.given)]
            for value, other in product(new, own):
                if element_count(value.raw) > 1 and math.isfinite(twins.distance(other.raw, value.raw)):
                    return other.call
        return None


def _parameters(dump: Dump) -> list[_Parameter]:
    """Return the trained parameters of a dump; none of a damaged one. One without a gradient at the end of the step may
    have had one."""
    items = dump.header.get(MODEL_PARAMETERS)
    items = items if isinstance(items, list) else []
    gradients = {
        f"{path_of(stem_of(name))}.{parameter}"
        for name, body in dump.data.items()
        if phase_of(name) == Phase.PARAMETERS_GRAD.value
        for parameter in body
    }
    return [
        _Parameter(item["name"], item["value"], item.get("has_gradient") is not False or item["name"] in gradients)
        for item in items
        if isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and isinstance(item.get("value"), dict)
        and item["value"].get("requires_grad")
    ]


def _is_suffix(*names: str) -> bool:
    """Return whether one name is that of the other, perhaps below another module."""
    shorter, longer = sorted(names, key=len)
    return longer == shorter or longer.endswith(f".{shorter}")


def _is_parameter(value: Value, raw: Any) -> bool:
    return bool(value.raw.get("requires_grad")) and value.is_source and same_values(value.raw, raw, EXACT)
