"""Which dump of one side belongs to which of the other: by step and rank; a lone process belongs to a lone one, and so
do two that are given by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from msprobe.compare.alignment.options import ORDER, MappingOptions, numbers
from msprobe.compare.parallel.layout import replicas
from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import Place, find_dumps

_Steps = dict[int | None, list[Place]]
_NOTHING_SAID = MappingOptions()
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Located:
    """Pairs in order of step and rank, and a line for each place without a partner."""

    pairs: list[tuple[Place, Place]] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)
    several_steps: bool = False


def locate(target: Path, golden: Path, options: MappingOptions = _NOTHING_SAID) -> Located:
    """Find and pair the dumps below two paths, by number or by order as ``options`` say.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: both hold dumps, but no pair of them belongs together, or not clearly.
    """
    found = find_dumps(target), find_dumps(golden)
    left = _by_step(replicas(found[0], options.target_parallel, "target"))
    right = _by_step(replicas(found[1], options.golden_parallel, "golden run"))
    if options.pair == ORDER or _are_named((target, golden), found):
        return _wanted(_in_order(left, right), options)
    pairs: list[tuple[Place, Place]] = []
    lone: list[str] = []
    for ours, theirs in _step_pairs(left, right, lone):
        matched = _ranks(ours, theirs)
        pairs.extend(matched)
        lone.extend(_lines("target", ours, {id(pair[0]) for pair in matched}))
        lone.extend(_lines("golden run", theirs, {id(pair[1]) for pair in matched}))
    if not pairs:
        raise NotComparableError(f"no step and rank is on both sides ({_shortened(lone)}){_advice(left, right)}")
    return _wanted(_located(pairs, lone), options)


def _are_named(paths: tuple[Path, Path], found: tuple[list[Place], list[Place]]) -> bool:
    """Whether the user gave the folder or document of one process on each side: those are meant, whatever their
    numbers."""
    for path, places in zip(paths, found, strict=True):
        if len(places) != 1 or not (path.is_file() or path.resolve() == places[0].document.parent.resolve()):
            return False
    texts = [_text(places[0]) for places in found]
    if texts[0] != texts[1] and {places[0].kind for places in found} == {"rank"}:
        logger.info("compare: %s of the target is compared with %s of the golden run, as they were given", *texts)
    return True


def _shortened(lone: list[str]) -> str:
    rest = len(lone) - _NAMED
    return "; ".join(lone[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def _advice(*sides: _Steps) -> str:
    """What to do: ranks that have other numbers can pair by order; but a process folder that has company has no rank,
    and cannot be found on the other side."""
    crowds = (places for steps in sides for places in steps.values() if len(places) > 1)
    process = next((place for places in crowds for place in places if place.kind == "proc"), None)
    if process is None:
        return "; give one folder of each side, or pair them in their order: --pair order"
    folder = process.document.parent
    return (
        f"; {folder.parent} holds several processes, of which compare cannot choose: give one of them, such as {folder}"
    )


def _located(pairs: list[tuple[Place, Place]], lone: list[str]) -> Located:
    steps = {place.step for place, _ in pairs}
    return Located(pairs, lone, len(steps) > 1)


def _wanted(located: Located, options: MappingOptions) -> Located:
    """Only the pairs of these ranks and steps of the target."""
    ranks, steps = numbers("rank", options.rank), numbers("step", options.step)
    if not ranks and not steps:
        return located
    pairs = [
        (ours, theirs)
        for ours, theirs in located.pairs
        if (not ranks or ours.number in ranks) and (not steps or ours.step in steps)
    ]
    if not pairs:
        asked = ", ".join(f"{name} {text}" for name, text in (("rank", options.rank), ("step", options.step)) if text)
        raise NotComparableError(f"no pair of dumps is of {asked}")
    return _located(pairs, located.unpaired)


def _in_order(left: _Steps, right: _Steps) -> Located:
    """The first step with the first, the first rank of each with the first."""
    pairs: list[tuple[Place, Place]] = []
    lone: list[str] = []
    nothing: list[Place] = []
    for ours, theirs in zip_longest(left.values(), right.values(), fillvalue=nothing):
        pairs += zip(ours, theirs, strict=False)
        lone += _lines("target", ours[len(theirs) :], set()) + _lines("golden run", theirs[len(ours) :], set())
    return _located(pairs, lone)


def _by_step(places: Sequence[Place]) -> _Steps:
    steps: _Steps = {}
    for place in places:
        steps.setdefault(place.step, []).append(place)
    return steps


def _step_pairs(left: _Steps, right: _Steps, lone: list[str]) -> list[tuple[list[Place], list[Place]]]:
    if len(left) == 1 and len(right) == 1:
        return [(next(iter(left.values())), next(iter(right.values())))]
    for side, steps, other in (("target", left, right), ("golden run", right, left)):
        if list(steps) == [None]:
            numbers = ", ".join(map(str, other))
            raise NotComparableError(
                f"the {side} is one dump without a step number, the other side has steps {numbers}; give one of them"
            )
        lone.extend(f"step {step} only in the {side}" for step in steps if step not in other)
    return [(left[step], right[step]) for step in left if step in right]


def _ranks(ours: list[Place], theirs: list[Place]) -> list[tuple[Place, Place]]:
    found: list[tuple[Place, Place]] = []
    for mode in dict.fromkeys(place.mode for place in ours):
        found += _of_one_mode([one for one in ours if one.mode == mode], [one for one in theirs if one.mode == mode])
    return found


def _of_one_mode(ours: list[Place], theirs: list[Place]) -> list[tuple[Place, Place]]:
    if len(ours) == 1 and len(theirs) == 1:
        numbers = {ours[0].number, theirs[0].number}
        kinds = {place.kind.removeprefix(f"{place.mode}_") for place in (ours[0], theirs[0])}
        told = kinds == {"rank"} and None not in numbers  # a lone process may have no number
        return [(ours[0], theirs[0])] if not told or len(numbers) == 1 else []
    by_label = {(place.kind, place.number): place for place in theirs}
    return [(place, by_label[place.kind, place.number]) for place in ours if (place.kind, place.number) in by_label]


def _lines(side: str, places: Sequence[Place], used: set[int]) -> list[str]:
    return [f"{_text(place)} only in the {side}" for place in places if id(place) not in used]


def _text(place: Place) -> str:
    return f"{place.label or place.document}{'' if place.step is None else f' of step {place.step}'}"
