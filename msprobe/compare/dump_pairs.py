"""Pair the dumps below two paths.

Dumps pair by step and rank, or by the tokens of one request of a server. A single process of one side pairs with a
single process of the other side, and so do two dumps that the user named. A pair is left out where a process was killed
before it recorded a call of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from msprobe.compare.alignment.options import ORDER, MappingOptions, numbers
from msprobe.compare.parallel.layout import members_of, replicas
from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import NO_CALLS, Place, ended_at_start, find_run

_Steps = dict[int | None, list[Place]]
_Pairs = list[tuple[Place, Place]]
_SIDES = "target", "golden run"
_NO_OPTIONS = MappingOptions()
_LISTED = 4


@dataclass(frozen=True, slots=True)
class Located:
    """The pairs of dumps of a comparison.

    Attributes:
        pairs: target and golden place, in order of step and rank.
        unpaired: a line for each place without a partner, without records because its process was killed, or of a run
            that was not read.
        missing: those of ``unpaired`` that are ranks or processes of a step that both sides have.
        several_steps: whether the pairs are of more than one step.
        places: all places of the target, and of the golden run.
    """

    pairs: list[tuple[Place, Place]] = field(default_factory=list)
    unpaired: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    several_steps: bool = False
    places: tuple[Sequence[Place], Sequence[Place]] = ((), ())


@dataclass(frozen=True, slots=True)
class _Unpaired:
    """A line for what has no partner; ``place`` is None for more than one, ``missing`` is as in ``Located``."""

    line: str
    place: Place | None = None
    missing: bool = False


def locate(target: Path, golden: Path, options: MappingOptions = _NO_OPTIONS) -> Located:
    """Find and pair the dumps below two paths, by number or by order as ``options`` say.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: both hold dumps, but no pair of them belongs together, or not clearly.
    """
    runs = find_run(target, options.runs[0]), find_run(golden, options.runs[1])
    places = runs[0].places, runs[1].places
    located = _recorded(_pair((target, golden), places, options))
    unread = [
        f"run {text} of the {side} was not read (--run)"
        for side, run in zip(_SIDES, runs, strict=True)
        for text in run.unread
    ]
    return replace(located, places=places, unpaired=[*located.unpaired, *unread])


def _pair(paths: tuple[Path, Path], places: tuple[list[Place], list[Place]], options: MappingOptions) -> Located:
    if options.of_request:
        return _selected(*_by_tokens(places, options), options)
    lost: list[str] = []
    left = _by_step(replicas(places[0], options.target_parallel, "target", lost))
    right = _by_step(replicas(places[1], options.golden_parallel, "golden run", lost))
    if not options.step_pairs and (options.pair == ORDER or _are_named(paths, places)):
        pairs, unpaired = _in_order(left, right)
        return _selected(pairs, [*(_Unpaired(line, missing=True) for line in lost), *unpaired], options)
    pairs = []
    unpaired = [_Unpaired(line, missing=True) for line in lost]
    if not options.spread:
        unpaired += map(_Unpaired, _other_numbers_of_ranks(left, right))
    if options.step_pairs:
        steps = _asked_pairs(left, right, options.step_pairs)
    else:
        steps = _step_pairs(left, right, unpaired)
    for targets, goldens in steps:
        matched = _rank_pairs(targets, goldens)
        pairs.extend(matched)
        for number, side in enumerate((targets, goldens)):
            used = {id(pair[number]) for pair in matched}
            asked = not is_one_process(paths[1 - number], places[1 - number])
            unpaired += _alone(_SIDES[number], [place for place in side if id(place) not in used], missing=asked)
    if not pairs:
        lines = [one.line for one in unpaired]
        raise NotComparableError(f"no step and rank is on both sides ({_shortened(lines)}){_advice(left, right)}")
    return _selected(pairs, unpaired, options)


def _by_tokens(places: tuple[list[Place], list[Place]], options: MappingOptions) -> tuple[_Pairs, list[_Unpaired]]:
    """Pair the dumps that hold the same tokens of a request.

    Raises:
        NotComparableError: there are none.
    """
    from msprobe.compare.requests.token_pairs import requests_of, token_pairs  # only where a request is compared

    requests = requests_of(options.target_request, options.golden_request)
    pairs, unpaired = token_pairs(places, requests, _rank_pairs)
    return [(pair.target, pair.golden) for pair in pairs], list(map(_Unpaired, unpaired))


def _other_numbers_of_ranks(left: _Steps, right: _Steps) -> Iterator[str]:
    """Yield a line where the sides have other numbers of ranks: which of them hold one model is not recorded."""
    counts = [
        {len(places) for places in steps.values() if all(place.kind == "rank" for place in places)}
        for steps in (left, right)
    ]
    if all(len(own) == 1 for own in counts) and counts[0] != counts[1]:
        ours, theirs = (own.pop() for own in counts)
        yield (
            f"the target has {ours} ranks and the golden run {theirs}, and nothing recorded tells which of them hold "
            "one model: say it with --target-parallel and --golden-parallel"
        )


def _recorded(located: Located) -> Located:
    """Return the pairs without those of which a side has no records, because its process was killed.

    Raises:
        NotComparableError: no pair is left.
    """
    pairs, unpaired = [], list(located.unpaired)
    for pair in located.pairs:
        ended = [side for side, place in zip(_SIDES, pair, strict=True) if _ended_at_start(place)]
        if ended:
            sides = " and the ".join(ended)
            unpaired.append(f"{_text(pair[0])}: the process of the {sides} {NO_CALLS}")
        else:
            pairs.append(pair)
    if not pairs:
        raise NotComparableError(_shortened(unpaired))
    if len(pairs) == len(located.pairs):
        return located
    return replace(located, pairs=pairs, unpaired=unpaired, several_steps=_several_steps(pairs))


def _ended_at_start(place: Place) -> bool:
    return any(map(ended_at_start, members_of(place)))


def _are_named(paths: tuple[Path, Path], places: tuple[list[Place], list[Place]]) -> bool:
    """Return whether the user named the folder or document of one process on each side.

    These two are compared, whatever their steps and ranks are.
    """
    if not all(map(is_one_process, paths, places)):
        return False
    texts = [_text(side[0]) for side in places]
    if texts[0] != texts[1] and {side[0].kind for side in places} == {"rank"}:
        logger.info("compare: %s of the target is compared with %s of the golden run, as they were given", *texts)
    return True


def is_one_process(path: Path, places: Sequence[Place]) -> bool:
    """Return whether ``path`` is the document or folder of one process."""
    return len(places) == 1 and (path.is_file() or path.resolve() == places[0].document.parent.resolve())


def _shortened(unpaired: list[str]) -> str:
    rest = len(unpaired) - _LISTED
    return "; ".join(unpaired[:_LISTED]) + (f"; and {rest} more" if rest > 0 else "")


def _advice(*sides: _Steps) -> str:
    """Return what the user can do when no dumps pair.

    Ranks with other numbers can pair by order. Several processes without a rank cannot: nothing says which belong
    together.
    """
    several = (places for steps in sides for places in steps.values() if len(places) > 1)
    process = next((place for places in several for place in places if place.kind == "proc"), None)
    if process is None:
        return "; give one folder of each side, or pair them in their order: --pair order"
    folder = process.document.parent
    return (
        f"; {folder.parent} holds several processes, of which compare cannot choose: give one of them, such as {folder}"
    )


def _several_steps(pairs: _Pairs) -> bool:
    return len({place.step for place, _ in pairs}) > 1


def _selected(pairs: _Pairs, unpaired: Sequence[_Unpaired], options: MappingOptions) -> Located:
    """Return the pairs whose target has one of the ranks and steps that the options name, and what has no partner.

    Raises:
        NotComparableError: no pair has.
    """
    ranks, steps = numbers("rank", options.rank), options.steps

    def is_selected(place: Place) -> bool:
        return (not ranks or place.number in ranks) and (not steps or place.step in steps)

    selected = [pair for pair in pairs if is_selected(pair[0])]
    if not selected:
        given = ("rank", options.rank), ("step", options.step)
        selection = ", ".join(f"{name} {text}" for name, text in given if text)
        there = _shortened(list({_text(target): None for target, _ in pairs}))
        raise NotComparableError(f"no pair of dumps is of {selection}; there is {there}")
    alone = [one for one in unpaired if one.place is None or is_selected(one.place)]
    return Located(
        selected,
        [one.line for one in alone],
        [one.line for one in alone if one.missing],
        several_steps=_several_steps(selected),
    )


def _in_order(left: _Steps, right: _Steps) -> tuple[_Pairs, list[_Unpaired]]:
    """Pair the n-th step of both sides, and in it the n-th rank."""
    pairs: _Pairs = []
    unpaired: list[_Unpaired] = []
    nothing: list[Place] = []
    for targets, goldens in zip_longest(left.values(), right.values(), fillvalue=nothing):
        pairs += zip(targets, goldens, strict=False)
        unpaired += _alone("target", targets[len(goldens) :], missing=bool(goldens))
        unpaired += _alone("golden run", goldens[len(targets) :], missing=bool(targets))
    return pairs, unpaired


def _by_step(places: Sequence[Place]) -> _Steps:
    steps: _Steps = {}
    for place in places:
        steps.setdefault(place.step, []).append(place)
    return steps


def _step_pairs(left: _Steps, right: _Steps, unpaired: list[_Unpaired]) -> list[tuple[list[Place], list[Place]]]:
    """Return the places of the steps that both sides have, and append a line for every other step to ``unpaired``.

    Raises:
        NotComparableError: one side is a single dump without a step number, and the other side has several steps.
    """
    if len(left) == 1 and len(right) == 1:
        return [(next(iter(left.values())), next(iter(right.values())))]
    for side, steps, other in (("target", left, right), ("golden run", right, left)):
        if list(steps) == [None]:
            numbers = ", ".join(map(str, other))
            raise NotComparableError(
                f"the {side} is one dump without a step number, the other side has steps {numbers}; give one of them"
            )
        unpaired.extend(_Unpaired(f"step {step} only in the {side}") for step in steps if step not in other)
    return [(left[step], right[step]) for step in left if step in right]


def _asked_pairs(left: _Steps, right: _Steps, pairs: Mapping[int, int]) -> list[tuple[list[Place], list[Place]]]:
    """Return the places of the steps that the user pairs.

    Raises:
        NotComparableError: a side has no such step.
    """
    for side, steps, asked in (("target", left, pairs.keys()), ("golden run", right, pairs.values())):
        missing = next((step for step in asked if step not in steps), None)
        if missing is not None:
            there = ", ".join(map(str, steps))
            raise NotComparableError(f"step {missing} is not in the {side}, which has {there}; give pairs of steps A:B")
    return [(left[target], right[golden]) for target, golden in pairs.items()]


def _rank_pairs(targets: list[Place], goldens: list[Place]) -> list[tuple[Place, Place]]:
    """Return the pairs of ranks of one step; graph and PyNative dumps of a process pair apart from each other."""
    pairs: _Pairs = []
    for mode in dict.fromkeys(place.mode for place in targets):
        left, right = ([place for place in places if place.mode == mode] for places in (targets, goldens))
        pairs += _rank_pairs_of_mode(left, right)
    return pairs


def _rank_pairs_of_mode(targets: list[Place], goldens: list[Place]) -> list[tuple[Place, Place]]:
    if len(targets) == 1 and len(goldens) == 1:
        numbers = {targets[0].number, goldens[0].number}
        kinds = {place.kind.removeprefix(f"{place.mode}_") for place in (targets[0], goldens[0])}
        are_numbered = kinds == {"rank"} and None not in numbers  # a single process may have no number
        return [(targets[0], goldens[0])] if not are_numbered or len(numbers) == 1 else []
    by_label = {(place.kind, place.number): place for place in goldens}
    return [(place, by_label[place.kind, place.number]) for place in targets if (place.kind, place.number) in by_label]


def _alone(side: str, places: Sequence[Place], *, missing: bool) -> Iterator[_Unpaired]:
    for place in places:
        yield _Unpaired(f"{_text(place)} only in the {side}", place, missing)


def _text(place: Place) -> str:
    return f"{place.label or place.document}{'' if place.step is None else f' of step {place.step}'}"


def following(pairs: Sequence[tuple[Place, Place]]) -> list[tuple[Place, Place] | None]:
    """Return for each pair that of the next step of its rank, None for the last ones."""
    latest: dict[str, tuple[Place, Place]] = {}
    found = []
    for pair in reversed(pairs):
        found.append(latest.get(pair[0].label))
        latest[pair[0].label] = pair
    return found[::-1]
