"""What becomes of the gradient of each parameter between the backward pass and the optimizer, as one dump shows it.

Programs add up gradients over ranks, clip them and copy them to parameters of another dtype; the optimizer gets what is
left. Nothing records to which parameter such a call belongs. But the calls of an optimizer change each parameter in
place, so its value leads to them; what they read there and never write is the gradient. From it the way leads back by
values: the call outside of modules that returned it, and what that call was given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.records.entries import OPTIMIZER, parent_of
from msprobe.compare.records.in_place_updates import works_in_place
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.statistics import LARGEST, SMALLEST, STATISTIC_NAMES
from msprobe.trace.likeness import distance

Raw = Mapping[str, Any]
Parameter = tuple[str, str]
"""The name of a forward call of a module, and the name of its parameter."""
_Fingerprint = tuple[Any, ...]
_FORWARD, _BACKWARD = ".forward", ".backward"
_LONGEST, _SAME = 8, 1e-3
"""Calls that are followed back from the optimizer, and how far two gradients may be apart that are one."""


class Stage(NamedTuple):
    """A gradient on its way: its record, and the call that returned it; None where no record tells which."""

    raw: Raw
    call: str | None


class _Argument(NamedTuple):
    """A tensor that a call gets: its place in lists of tensors (None outside of them), and whether it is changed."""

    raw: Raw
    lane: int | None
    written: bool


class _OptimizerCall(NamedTuple):
    given: list[_Argument]
    returned: list[_Argument]


def gradient_trails(dump: Dump) -> dict[Parameter, list[Stage]]:
    """Return the gradients that the optimizer gets, by parameter, each with its stages in the order of execution; the
    last one is what the optimizer gets."""
    calls = [_optimizer_call(dump.data[name], name) for name in dump.data if _of_optimizer(dump, name)]
    if not calls:
        return {}
    gradients = dict(_gradients(dict(_parameters(dump)), calls))
    makers = _Makers(dump)
    return {parameter: _trail(raw, makers) for parameter, raw in gradients.items()}


def shard_trails(dump: Dump) -> list[list[Stage]]:
    """Return the ways of the tensors that the calls of the optimizer read and never write: the gradients, also of a
    shard that belongs to no parameter."""
    calls = [_optimizer_call(dump.data[name], name) for name in dump.data if _of_optimizer(dump, name)]
    arguments = [argument for call in calls for argument in (*call.given, *call.returned)]
    written = {_fingerprint(argument.raw) for argument in arguments if argument.written}
    read = {_fingerprint(argument.raw): argument.raw for argument in arguments if math.prod(argument.raw["shape"]) > 1}
    makers = _Makers(dump)
    return [_trail(raw, makers) for fingerprint, raw in read.items() if fingerprint not in written]


def _of_optimizer(dump: Dump, name: str) -> bool:
    return name.endswith(_FORWARD) and parent_of(dump.construct, name) == OPTIMIZER


def _parameters(dump: Dump) -> Iterator[tuple[Parameter, Raw]]:
    """Yield each trained parameter once, in the order of the calls of modules."""
    seen = set()
    for name, body in dump.data.items():
        own = body.get("parameters") if is_module_name(name) else None
        for parameter, raw in (own or {}).items():
            known = (name.rpartition(_FORWARD)[0], parameter)
            if known not in seen and is_tensor(raw) and raw.get("requires_grad") is not False:
                seen.add(known)
                yield (name, parameter), raw


def _optimizer_call(body: Mapping[str, Any], name: str) -> _OptimizerCall:
    in_place = works_in_place(name.removesuffix(_FORWARD).rpartition(".")[0])
    given, returned = body.get("input_args") or [], body.get("output") or []
    arguments = [
        _Argument(raw, lane, in_place and not position)
        for position, argument in enumerate(given)
        for lane, raw in _tensors(argument)
    ]
    results = [_Argument(raw, lane, True) for result in returned[:1] for lane, raw in _tensors(result)]
    return _OptimizerCall(arguments, results)


def _tensors(argument: Any) -> Iterator[tuple[int | None, Raw]]:
    """Yield a tensor, or those of a list with their places in it."""
    if isinstance(argument, list):
        yield from ((lane, raw) for lane, raw in enumerate(argument) if is_tensor(raw))
    elif is_tensor(argument):
        yield None, argument


class _Changes(NamedTuple):
    """Where a parameter is changed: its place in lists, and the position of the last call that changes it."""

    lane: int | None
    last: int


def _gradients(parameters: Mapping[Parameter, Raw], calls: list[_OptimizerCall]) -> Iterator[tuple[Parameter, Raw]]:
    """Yield each parameter with the tensor of its shape that the calls on it read first, and never write.

    A parameter of zeros cannot be told from the state of another one. It is left out, and so are those of its shape
    where the calls on one parameter follow those on the other: what it gets may be among them. Parameters of one shape
    and range (all ones, or one step away from it) cannot be told from each other, and are left out as well.
    """
    alike = Counter(_extremes(raw) for raw in parameters.values())
    zeros = {str(raw["shape"]) for raw in parameters.values() if _is_zero(raw)}
    changes = _changes({name: raw for name, raw in parameters.items() if not _is_zero(raw)}, calls)
    ends = sorted({change.last for change in changes.values()})
    begin = {end: before + 1 for end, before in zip(ends, [-1, *ends], strict=False)}
    by_lane = {end: _by_lane(calls[start : end + 1]) for end, start in begin.items()}
    for parameter, (lane, last) in changes.items():
        if alike[_extremes(parameters[parameter])] > 1:
            continue
        shape = parameters[parameter]["shape"]
        if lane is None and str(shape) in zeros:
            continue
        own = [argument for argument in by_lane[last][lane] if argument.raw["shape"] == shape]
        written = {_fingerprint(argument.raw) for argument in own if argument.written}
        read = next((argument.raw for argument in own if _fingerprint(argument.raw) not in written), None)
        if read is not None:
            yield parameter, read


def _by_lane(calls: Sequence[_OptimizerCall]) -> Mapping[int | None, list[_Argument]]:
    """Return what calls get and return, by the place in lists of tensors."""
    found: dict[int | None, list[_Argument]] = {}
    for argument in (argument for call in calls for argument in (*call.given, *call.returned)):
        found.setdefault(argument.lane, []).append(argument)
    return found


def _is_zero(raw: Raw) -> bool:
    return not raw.get(LARGEST.name) and not raw.get(SMALLEST.name)


def _changes(parameters: Mapping[Parameter, Raw], calls: list[_OptimizerCall]) -> dict[Parameter, _Changes]:
    """Return where each parameter is changed: from one call in place to the next one that gets what it returns."""
    waiting: dict[_Fingerprint, list[Parameter]] = {}
    for parameter, raw in parameters.items():
        waiting.setdefault(_extremes(raw), []).append(parameter)
    changes: dict[Parameter, _Changes] = {}
    for position, call in enumerate(calls):
        results = {result.lane: result.raw for result in call.returned}
        for argument in call.given:
            before = _extremes(argument.raw) if argument.written else None
            if before not in waiting or argument.lane not in results:
                continue
            parameter = waiting[before].pop(0)
            if not waiting[before]:
                del waiting[before]
            changes[parameter] = _Changes(argument.lane, position)
            waiting.setdefault(_extremes(results[argument.lane]), []).insert(0, parameter)
    return changes


class _Makers:
    """The calls outside of modules between backward pass and optimizer, by what they return."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self._calls: dict[_Fingerprint, list[tuple[int, str]]] = {}
        for position, name in enumerate(calls_after_backward(dump)):
            for result in dump.data[name].get("output") or ():
                for _, raw in _tensors(result):
                    self._calls.setdefault(_fingerprint(raw), []).append((position, name))

    def before(self, raw: Raw, position: float) -> tuple[int, str] | None:
        """Return the last call before a position that returns a tensor, with its own position; None without one."""
        found = (call for call in self._calls.get(_fingerprint(raw), ()) if call[0] < position)
        return max(found, default=None)

    def given(self, name: str) -> Iterator[Raw]:
        """Yield the tensors that a call gets."""
        for argument in self.dump.data[name].get("input_args") or ():
            yield from (raw for _, raw in _tensors(argument))


def calls_after_backward(dump: Dump) -> list[str]:
    """Return the names of the calls between the last backward call and the optimizer."""
    return [
        name
        for name in list(dump.data)[last_backward(dump) + 1 :]
        if name.endswith(_FORWARD) and parent_of(dump.construct, name) in (None, "") and not is_module_name(name)
    ]


def last_backward(dump: Dump) -> int:
    """Return the position of the last call of a backward pass; the number of calls where there is none."""
    names = list(dump.data)
    return next((position for position in range(len(names) - 1, -1, -1) if _BACKWARD in names[position]), len(names))


def _trail(raw: Raw, makers: _Makers) -> list[Stage]:
    stages: list[Stage] = []
    position = math.inf
    while len(stages) < _LONGEST:
        found = makers.before(raw, position)
        stages.insert(0, Stage(raw, found and found[1]))
        given = makers.given(found[1]) if found else ()
        before = next((each for each in given if each["shape"] == raw["shape"]), None)
        if found is None or before is None:
            break
        raw, position = before, found[0]
    return stages


def _fingerprint(raw: Raw) -> _Fingerprint:
    return str(raw["shape"]), *(raw.get(name) for name in STATISTIC_NAMES)


def _extremes(raw: Raw) -> _Fingerprint:
    """Return what recognises a parameter also in its copy of another dtype: other statistics are rounded to that."""
    return str(raw["shape"]), raw.get(LARGEST.name), raw.get(SMALLEST.name)


def module_with_wrong_gradient(target: Dump, golden: Dump, call: str) -> tuple[str, str] | None:
    """Return the forward call of the first module whose gradient is wrong at a call between backward pass and
    optimizer, and the name of the parameter; None for another call, and where no gradient is wrong, or all are."""
    if call not in calls_after_backward(target):
        return None
    ours, theirs = gradient_trails(target), gradient_trails(golden)
    both = [parameter for parameter in ours if parameter in theirs]
    wrong = [parameter for parameter in both if _is_wrong(ours[parameter], theirs[parameter])]
    return wrong[0] if wrong and len(wrong) < len(both) else None


def _is_wrong(target: Sequence[Stage], golden: Sequence[Stage]) -> bool:
    last = golden[-2:][0].raw
    return not any(
        stage.raw["shape"] == last["shape"] and distance(stage.raw, last) <= _SAME for stage in target[:-1] or target
    )
