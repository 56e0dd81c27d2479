"""The gradients that optimizers get, as values of the model: what ranks added up, clipped and averaged.

A gradient is recorded where the backward pass makes it. What becomes of it afterwards shows in the parameters of the
next step only, and there an optimizer that divides by the size of the gradient hides most of it. So what the optimizer
gets is a value of its own (``gradient_trails``), which lies on the ranks as the parameter does and is the same on all
copies. Where it is wrong and the gradient of the backward pass is not, the way between them says which call is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from msprobe.compare.after_backward.gradient_trails import calls_after_backward, gradient_trails
from msprobe.compare.after_backward.lost_reductions import lost_reduction
from msprobe.compare.after_backward.numbers_of_python import maker_of_number, place_of
from msprobe.compare.parallel.arrangement import Coordinates, Grid, Kind, arranged, whole
from msprobe.compare.parallel.identity import Call, Key, Part, RankCalls
from msprobe.compare.parallel.merged_dump import Suspect
from msprobe.compare.parallel.outside_modules.optimizer_shards import add_shards, key_of_all
from msprobe.compare.parallel.outside_modules.outside_calls import close
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.core.naming import Phase
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import element_count

AT_OPTIMIZER = "optimizer"
"""The function of a key of gradients that an optimizer gets."""
_Parameter = tuple[str, str]
_Sides = tuple[Sequence[RankCalls], Sequence[RankCalls]]
_MOVES_DATA = ("cat", "clone", "flatten", "split", "pad", "copy_", "detach", "contiguous")
_BEFORE = "the gradient that the optimizer gets differs, the one that the backward pass makes does not; "
_LATE = _BEFORE + "it was right before this call outside of the modules"
_ALONE = _BEFORE + "this is the first call in between that only the target makes"
_TOGETHER = "all gradients that the optimizer gets, seen as one value, differ; they were right before this call"
_TOGETHER_EARLY = (
    "all gradients that the optimizer gets, seen as one value, differ; this call makes them before they are clipped"
)
_LOST = _BEFORE + "this call adds gradients up over ranks, and after it the ranks still have this one as it was before"
_OTHER_GROUP = _BEFORE + "this call adds gradients up over a group of ranks in which not all are that share it"
_COLLECTIVE = "Distributed."
_OF_MODULE = _BEFORE + "those of other parameters are right before they are clipped"


def add_optimizer_gradients(sides: _Sides) -> None:
    """Add the gradients that optimizers get to the calls of the ranks, of those parameters of which every rank of both
    sides that has one shows it. Optimizers that share parameters in another way show them of none."""
    for ranks in sides:
        for rank in ranks:
            names = {call.name: call.key.path for call in rank.calls}
            trails = gradient_trails(rank.dump).items()
            rank.trails = {(names[name], own): stages for (name, own), stages in trails if name in names}
    own_trails = tuple([rank.trails for rank in ranks] for ranks in sides)
    known = [_shown_by_all(ranks) for ranks in sides]
    for rank in (rank for ranks in sides for rank in ranks):
        rank.trails = {name: stages for name, stages in rank.trails.items() if all(name in own for own in known)}
        rank.calls.extend(_calls(rank))
    add_shards(sides, (own_trails[0], own_trails[1]), key_of_all(AT_OPTIMIZER))


def _shown_by_all(ranks: Sequence[RankCalls]) -> set[_Parameter]:
    """Return the parameters of which every rank that has one shows what the optimizer gets."""
    parameters: set[_Parameter] = {parameter for rank in ranks for parameter in rank.trails}
    for rank in ranks:
        own = {(call.key.path, name) for call in rank.calls for name in call.body.get("parameters") or ()}
        parameters -= own - rank.trails.keys()
    return parameters


def _calls(rank: RankCalls) -> list[Call]:
    """Return the gradients that the optimizer of a rank gets as calls, one for each module."""
    modules = {call.key.path: call for call in reversed(rank.calls) if call.part is Part.FORWARD}
    bodies: dict[str, dict[str, object]] = {}
    for (path, parameter), stages in rank.trails.items():
        bodies.setdefault(path, {})[parameter] = stages[-1].raw
    return [
        Call(
            Key(path, Phase.PARAMETERS_GRAD, 0, 0, AT_OPTIMIZER),
            f"{modules[path].name}:{AT_OPTIMIZER}",
            modules[path].cls,
            body,
            None,
            modules[path].stage,
            Part.UPDATE,
        )
        for path, body in bodies.items()
    ]


@dataclass(slots=True)
class WrongUpdates:
    """What makes wrong gradients between the backward pass and the optimizer.

    Attributes:
        target: the calls of the ranks of the target.
        golden: those of the golden run.
    """

    target: Sequence[RankCalls]
    golden: Sequence[RankCalls]

    def suspect(self) -> tuple[Key | None, Suspect]:
        """Return the module whose gradient is wrong, None where all are, and the call that makes it so."""
        if self.target[0].shards:
            return None, self._of_shards()
        parameters = dict.fromkeys(name for rank in self.target for name in rank.trails)
        wrong = [parameter for parameter in parameters if self._is_wrong_early(parameter)]
        known = [parameter for parameter in parameters if any(parameter in rank.trails for rank in self.golden)]
        if not wrong:
            return None, Suspect(self._first_wrong_call(parameters), _LATE)
        stack = self._lost_reduction(wrong[0])
        if stack:
            return Key(wrong[0][0], Phase.PARAMETERS_GRAD, 0, 0, AT_OPTIMIZER), Suspect(stack, _LOST)
        stack = self._other_group(wrong[0])
        if stack:
            return Key(wrong[0][0], Phase.PARAMETERS_GRAD, 0, 0, AT_OPTIMIZER), Suspect(stack, _OTHER_GROUP)
        stack = self._alone() if set(wrong) >= set(known) else ()
        if stack:
            return None, Suspect(stack, _ALONE)
        return Key(wrong[0][0], Phase.PARAMETERS_GRAD, 0, 0, AT_OPTIMIZER), Suspect((), _OF_MODULE)

    def _of_shards(self) -> Suspect:
        """Return the call that makes all gradients wrong: the last one before they are clipped, or what clips them."""
        own, other = self.target[0].before_clipping, self.golden[0].before_clipping
        right = own is not None and other is not None and close(own, other)
        stages = next((stages for stages in self.target[0].shards if len(stages) > 1), ())
        call = stages[-1 if right else -2].call if stages else None
        if call is None:
            return Suspect((), _TOGETHER)
        if right:
            first, reference = self.target[0], self.golden[0]
            golden = next((stage[-1].call for stage in reference.shards if stage[-1].call is not None), None)
            call = _maker_of_factor((first, call), (reference, golden)) or self._maker(first, call)
        return Suspect(self.target[0].dump.stacks.get(call, ()), _TOGETHER if right else _TOGETHER_EARLY)

    def _is_wrong_early(self, parameter: _Parameter) -> bool:
        """Return whether no gradient before the last call on the way is what that call gets in the golden run."""
        target, golden = (list(_stages(ranks, parameter)) for ranks in (self.target, self.golden))
        return bool(golden) and not any(_agree(own, golden[-1]) for own in target)

    def _lost_reduction(self, parameter: _Parameter) -> Sequence[str]:
        """Return where a gradient is added up over ranks, if the ranks go on with what they had before."""
        for rank, _ in self._apart(parameter):
            call = lost_reduction(rank.dump, rank.trails[parameter][0].raw)
            if call is not None:
                return rank.dump.stacks.get(call, ())
        return ()

    def _other_group(self, parameter: _Parameter) -> Sequence[str]:
        """Return where the last collective is that adds up as many elements over ranks, if two ranks that share a
        parameter have different gradients, and these ranks are not among its group."""
        for rank, other in self._apart(parameter):
            raw = rank.trails[parameter][-1].raw
            for name in reversed(calls_after_backward(rank.dump)):
                group = _group_of(rank, name, raw)
                if group:
                    return rank.dump.stacks.get(name, ()) if other.dump.place.number not in group else ()
        return ()

    def _apart(self, parameter: _Parameter) -> Iterator[tuple[RankCalls, RankCalls]]:
        """Yield pairs of ranks that have the same part of a parameter, and different gradients at the optimizer."""
        for rank, other in combinations([rank for rank in self.target if parameter in rank.trails], 2):
            own, different = (piece_of(one.trails[parameter][-1].raw) for one in (rank, other))
            alike = own is None or different is None or own.agrees(different)
            if not alike and (rank.place.tp == other.place.tp or self._is_whole(parameter, rank)):
                yield rank, other

    def _is_whole(self, parameter: _Parameter, rank: RankCalls) -> bool:
        """Return whether a rank has as much of a parameter as the golden run has altogether."""
        others = [other.trails[parameter][-1].raw for other in self.golden if parameter in other.trails]
        pieces = [piece for raw in others if (piece := piece_of(raw)) is not None]
        size = element_count(rank.trails[parameter][-1].raw)
        return bool(pieces) and pieces[0].numel == size and all(pieces[0].agrees(piece) for piece in pieces)

    def _alone(self) -> Sequence[str]:
        """Return where the first call between backward pass and optimizer is made that only the target makes."""
        known = {place_of(rank.dump, name) for rank in self.golden for name in calls_after_backward(rank.dump)}
        for rank in self.target:
            for name in calls_after_backward(rank.dump):
                if place_of(rank.dump, name) not in known and name.split(".")[1] not in _MOVES_DATA:
                    return rank.dump.stacks.get(name, ())
        return ()

    def _first_wrong_call(self, parameters: Iterable[_Parameter]) -> Sequence[str]:
        """Return where the call is made that turns right gradients into wrong ones, or what it multiplies them with."""
        for rank in self.target:
            for parameter in parameters:
                call = rank.trails[parameter][-1].call if parameter in rank.trails else None
                if call is not None:
                    others = ((own, own.trails[parameter][-1].call) for own in self.golden if parameter in own.trails)
                    made = (_maker_of_factor((rank, call), other) for other in others)
                    return rank.dump.stacks.get(next(filter(None, made), None) or self._maker(rank, call), ())
        return ()

    def _maker(self, rank: RankCalls, call: str) -> str:
        """Return the first call on the way of the other arguments that returns what no call of the golden run of its
        kind returns; the call itself without one."""
        others: dict[tuple[str, str], list[Mapping[str, object]]] = {}
        for other in self.golden:
            for name in calls_after_backward(other.dump):
                others.setdefault(place_of(other.dump, name), []).extend(_results(other, name))
        way, found = [call], call
        made = {_number(raw): name for name in calls_after_backward(rank.dump) for raw in _results(rank, name)}
        while way and len(way) < _LONGEST_WAY:
            given = [raw for raw in _given(rank, way[-1]) if _is_scalar(raw)]
            before = next((made[_number(raw)] for raw in given if made.get(_number(raw), way[-1]) not in way), None)
            if before is None:
                break
            way.append(before)
            known = others.get(place_of(rank.dump, before))
            if known is not None and self._is_of_all(rank, before) and not _any_same(_results(rank, before), known):
                found = before
        return found

    def _is_of_all(self, rank: RankCalls, name: str) -> bool:
        """Return whether every rank of the target gets the same result from a call: then it is no share of a sum."""
        own = list(_results(rank, name))
        return all(name in other.dump.data and _any_same(own, _results(other, name)) for other in self.target)


_LONGEST_WAY = 12


def _stages(ranks: Sequence[RankCalls], parameter: _Parameter) -> Iterator[Grid]:
    """Yield what the ranks have of a gradient on its way to the optimizer, before the last call on it."""
    holders = [rank for rank in ranks if parameter in rank.trails]
    lengths = {len(rank.trails[parameter]) for rank in holders}
    for stage in range(max(min(lengths, default=0) - 1, 1) if holders else 0):
        grid: dict[Coordinates, Piece] = {}
        for rank in holders:
            stages, at = rank.trails[parameter], rank.place
            piece = piece_of(stages[max(stage - min(lengths) + 1, -len(stages)) - 1].raw)
            if piece is not None:
                grid[at.tp, at.cp, at.dp, 0, 0] = piece
        yield grid


def _agree(target: Grid, golden: Grid) -> bool:
    if not target or not golden:
        return True
    pair = arranged(target, golden, Kind.PARAMETER)
    if pair is None:
        return True
    other = whole(golden, pair[1], kind=Kind.PARAMETER)
    return close(whole(target, pair[0], other, kind=Kind.PARAMETER), other)


def _results(rank: RankCalls, name: str) -> Iterator[Mapping[str, object]]:
    yield from (raw for raw in rank.dump.data[name].get("output") or () if is_tensor(raw))


def _given(rank: RankCalls, name: str) -> Iterator[Mapping[str, object]]:
    yield from (raw for raw in rank.dump.data[name].get("input_args") or () if is_tensor(raw))


def _group_of(rank: RankCalls, name: str, gradient: Mapping[str, Any]) -> list[int]:
    """Return the ranks over which a call adds up a tensor of the shape of a gradient, or a flat buffer that is larger;
    none for another call."""
    count = element_count(gradient)
    given = list(_given(rank, name)) if name.startswith(_COLLECTIVE) else []
    flat = [raw for raw in given if len(raw["shape"]) == 1 and element_count(raw) >= count > 1]  # type: ignore[arg-type]
    if not flat and not any(raw["shape"] == gradient["shape"] for raw in given):
        return []
    body = rank.dump.data[name]
    nodes = [*(body.get("input_kwargs") or {}).values(), *(body.get("input_args") or ())]
    groups = (node["group_ranks"] for node in nodes if isinstance(node, dict) and "group_ranks" in node)
    return next((list(ranks) for ranks in groups if len(ranks) > 1), [])


def _maker_of_factor(target: tuple[RankCalls, str], golden: tuple[RankCalls, str | None]) -> str | None:
    """Return the call from which the number follows that a call multiplies a gradient with; None where the number is
    that of the golden run, or a tensor."""
    (rank, call), (other, counterpart) = target, golden
    if counterpart is None:
        return None
    for numbers in zip(_factors(rank, call), _factors(other, counterpart), strict=False):
        made = maker_of_number((rank.dump, other.dump), (call, counterpart), numbers)
        if made is not None:
            return made.call
    return None


def _factors(rank: RankCalls, name: str) -> list[float]:
    """Return the numbers of Python that a call gets."""
    given = rank.dump.data[name].get("input_args") or ()
    values = [raw.get("value") for raw in given if isinstance(raw, dict)]
    return [value for value in values if isinstance(value, float)]


def _is_scalar(raw: Mapping[str, object]) -> bool:
    return raw["shape"] in ([], [1])


def _number(raw: Mapping[str, object]) -> tuple[object, ...]:
    return str(raw["shape"]), raw.get("Max")


def _any_same(raws: Iterable[Mapping[str, object]], others: Iterable[Mapping[str, object]]) -> bool:
    known = list(others)
    return any(_same(raw, other) for raw in raws for other in known)


def _same(raw: Mapping[str, object], other: Mapping[str, object]) -> bool:
    own, their = piece_of(raw), piece_of(other)
    return own is not None and their is not None and own.numel == their.numel and close(own, their)
