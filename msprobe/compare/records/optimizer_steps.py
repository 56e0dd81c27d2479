"""The steps of optimizers that a dump describes in its header: class, settings and parameters of each.

The first step of an optimizer in a dump names its class and parameters; later ones have its number and their settings
(docs/guide/collection/further_keys.md). ``optimizer_steps`` puts both together. A damaged description counts as none.
``gradient_calls`` says where a program computes and clears gradients, ``parameters_after`` what a step leaves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.records.entries import OPTIMIZER, parent_of
from msprobe.compare.records.source_lines import frame_of, source_line
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import as_float

_IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable", "params", "initial_lr"})
OPTIMIZERS, GRADIENT_CALLS = "optimizers", "gradient_calls"
MODEL_PARAMETERS, PARAMETERS_AFTER_STEP = "model_parameters", "parameters_after_step"
"""Keys of the header."""


class OptimizerStep(NamedTuple):
    """One group of parameters in one step: the class of the optimizer, its settings, and the names of parameters (None
    for a tensor that is no parameter of the model).

    ``call`` counts the steps of all optimizers in the dump; ``stack`` has the frames of the call of ``step``, innermost
    first, and is empty where they are not known.
    """

    call: int
    stack: tuple[str, ...]
    optimizer: int
    group: int
    kind: str
    settings: Mapping[str, Any]
    parameters: tuple[str | None, ...]

    @property
    def learning_rate(self) -> float | None:
        """Return the learning rate; None where it is no number."""
        rate = _plain(self.settings.get("lr"))
        return as_float(rate) if isinstance(rate, (int, float)) and not isinstance(rate, bool) else None


def optimizer_steps(dump: Dump) -> Iterator[OptimizerStep]:
    """Yield the groups of all steps in the order in which the steps began."""
    kinds: dict[int, str] = {}
    names: dict[tuple[int, int], tuple[str | None, ...]] = {}
    steps = _without_inner(_items(dump, OPTIMIZERS))
    inside = [] if not dump.stacks or all(map(_frames, steps)) else _stacks_of_calls(dump)
    for call, step in enumerate(steps):
        if not isinstance(step.get("optimizer"), int):
            continue
        optimizer, groups = step["optimizer"], step.get("groups")
        stack = _frames(step) or (inside[min(call, len(inside) - 1)] if inside else ())
        kinds.setdefault(optimizer, str(step.get("class", "")))
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            if not isinstance(group, dict):
                continue
            parameters = group.get("parameters")
            if isinstance(parameters, list):
                names[optimizer, number] = tuple(name if isinstance(name, str) else None for name in parameters)
            settings = {name: value for name, value in group.items() if name != "parameters"}
            parameters = names.get((optimizer, number), ())
            yield OptimizerStep(call, stack, optimizer, number, kinds[optimizer], settings, parameters)


def _without_inner(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the steps without those that another one makes: an optimizer that shares its states among ranks calls the
    step of the one that updates its share. The outer step then has the class of the inner one."""
    kept: list[Mapping[str, Any]] = []
    for step in steps:
        frames = _frames(step)
        outer = next((number for number, other in enumerate(kept) if _is_inside(frames, _frames(other))), None)
        if outer is None:
            kept.append(step)
        elif "class" in step:
            kept[outer] = {**kept[outer], "class": step["class"]}
    return kept


def _is_inside(frames: Sequence[str], outer: Sequence[str]) -> bool:
    """Return whether a call was made inside another one, whose innermost frame is that of the hook that recorded it."""
    around = len(outer) - 1
    return around > 0 and len(frames) > len(outer) and list(frames[-around:]) == list(outer[1:])


def number_of_steps(steps: Sequence[OptimizerStep]) -> int:
    """Return how many steps the groups belong to."""
    return len({step.call for step in steps})


def paired_steps(
    target: Sequence[OptimizerStep], golden: Sequence[OptimizerStep]
) -> Iterator[tuple[OptimizerStep, OptimizerStep]]:
    """Yield the groups of both runs that have a parameter in common: its first steps, its second ones, and so on,
    whatever other optimizers do in between.

    Groups without a common name pair by position, where a call of both runs has the same number of them.
    """
    ours, theirs = (_places_by_parameter(steps) for steps in (target, golden))
    pairs = {pair for name in ours.keys() & theirs.keys() for pair in zip(ours[name], theirs[name], strict=False)}
    unnamed = (_unpaired(target, {own for own, _ in pairs}), _unpaired(golden, {other for _, other in pairs}))
    for call in unnamed[0].keys() & unnamed[1].keys():
        if len(unnamed[0][call]) == len(unnamed[1][call]):
            pairs.update(zip(unnamed[0][call], unnamed[1][call], strict=True))
    for own, other in sorted(pairs):
        yield target[own], golden[other]


def _places_by_parameter(steps: Sequence[OptimizerStep]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for name in filter(None, step.parameters):
            places.setdefault(name, []).append(number)
    return places


def _unpaired(steps: Sequence[OptimizerStep], paired: Collection[int]) -> dict[int, list[int]]:
    """Return the places of the groups without a partner, by call."""
    places: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        if number not in paired:
            places.setdefault(step.call, []).append(number)
    return places


def other_settings(ours: OptimizerStep, theirs: OptimizerStep) -> Iterator[str]:
    """Yield the names of the settings that both sides recorded and that differ, the learning rate first.

    Settings that say only how a step is computed (``foreach``, ``fused``) do not count.
    """
    names = {*ours.settings, *theirs.settings} - _IMPLEMENTATION
    for name in sorted(names, key=lambda name: (name != "lr", name)):
        left, right = (_plain(step.settings.get(name)) for step in (ours, theirs))
        if left is not None and right is not None and _differ(left, right):
            yield name


class OtherSetting(NamedTuple):
    """A setting of one optimizer that differs: the step of both runs, and its name."""

    target: OptimizerStep
    golden: OptimizerStep
    name: str


def first_other_number(target: Dump, golden: Dump) -> OtherSetting | None:
    """Return the first number among the settings of an optimizer of both runs, with parameters of one name, or as many
    without names, that differs; None where there is none."""
    for ours, theirs in paired_steps(list(optimizer_steps(target)), list(optimizer_steps(golden))):
        shared = {*ours.parameters} & {*theirs.parameters} - {None} or ours.parameters == theirs.parameters
        if ours.kind != theirs.kind or not shared:
            continue
        for name in other_settings(ours, theirs):
            if _is_number(ours.settings[name]) and _is_number(theirs.settings[name]):
                return OtherSetting(ours, theirs, name)
    return None


class OtherCount(NamedTuple):
    """A parameter that both runs update in another number of steps of optimizers: the last step with it in both runs,
    its name, and the numbers of target and golden run."""

    target: OptimizerStep
    golden: OptimizerStep
    parameter: str
    counts: tuple[int, int]


def first_other_count(target: Dump, golden: Dump) -> OtherCount | None:
    """Return the first parameter that optimizers of both runs update, and not as often; None where there is none."""
    ours, theirs = (list(optimizer_steps(dump)) for dump in (target, golden))
    places = _places_by_parameter(ours)
    for name, others in _places_by_parameter(theirs).items():
        steps = [theirs[number] for number in others]
        own = [ours[number] for number in places.get(name, ())] or steps
        counts = number_of_steps(own), number_of_steps(steps)
        if counts[0] != counts[1]:
            return OtherCount(own[-1], steps[-1], name, counts)
    return None


def _is_number(value: Any) -> bool:
    """Return whether a setting is a number, a flag, several of them, or a tensor of one number."""
    if isinstance(value, list):
        return all(map(_is_number, value))
    return isinstance(value, (int, float, dict))


def _plain(value: Any) -> Any:
    """Return a setting without the description of a tensor: its number, or None where that is not known."""
    if not isinstance(value, dict):
        return value
    largest, smallest = value.get("Max"), value.get("Min")
    return largest if largest == smallest else None


def shown_setting(value: Any) -> Any:
    """Return a setting as it is told: of a tensor, as MindSpore has the learning rate in, the digits of its number."""
    number = _plain(value)
    return float(f"{number:.7g}") if isinstance(value, dict) and isinstance(number, float) else number


def _differ(left: Any, right: Any) -> bool:
    """Return whether numbers, or lists of them, are further apart than rounding, or other values are not equal."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) != len(right) or any(map(_differ, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left != right and not math.isclose(as_float(left), as_float(right), rel_tol=1e-6)
    return bool(left != right)


def gradient_calls(dump: Dump) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name (``backward`` or ``zero_grad``) and the stack of each call that computes or clears gradients."""
    for item in _items(dump, GRADIENT_CALLS):
        yield str(item.get("call")), _frames(item)


def update_statement(step: tuple[str, ...], dump: Dump) -> tuple[str, ...]:
    """Return the stack of the step of an optimizer from the function on that computes gradients too, which calls what
    makes the whole update: other functions in between may clip, share and write back. Without one the stack stays."""
    for _, stack in gradient_calls(dump):
        functions = {(frame.path, frame.function) for frame in map(frame_of, stack) if not frame.is_library}
        for number, text in enumerate(step):
            frame = frame_of(text)
            if (frame.path, frame.function) in functions:
                return step[number:]
    return step


def parameters_after(dump: Dump) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of the model as the step left them, by name; none where the header does not have them."""
    items = _items(dump, MODEL_PARAMETERS) or _items(dump, PARAMETERS_AFTER_STEP)
    return {str(item["name"]): item["value"] for item in items if "name" in item and is_tensor(item.get("value"))}


def _items(dump: Dump, key: str) -> list[Mapping[str, Any]]:
    items = dump.header.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _frames(item: Mapping[str, Any]) -> tuple[str, ...]:
    frames = item.get("stack")
    return tuple(frame for frame in frames if isinstance(frame, str)) if isinstance(frames, list) else ()


def _stacks_of_calls(dump: Dump) -> list[tuple[str, ...]]:
    """Return a stack for each line from which recorded calls of optimizers come, in their order.

    A dump of another tool, or of an earlier version, says of a step no more than this.
    """
    stacks: dict[str, tuple[str, ...]] = {}
    for name in dump.data:
        if parent_of(dump.construct, name) == OPTIMIZER and (stack := dump.stacks.get(name)):
            stacks.setdefault(source_line(stack), tuple(stack))
    return list(stacks.values())
