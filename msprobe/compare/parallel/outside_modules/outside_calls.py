"""Which call of a function outside of modules makes a wrong value that enters a module.

Functions outside of modules (the loss, what passes between stages) work on what a rank has, so their values differ
between layouts also where all is right. They give no verdict. But where the gradient of a result, or what goes into
the model, is wrong, the first of them explains it that gets what the other side gets and does something else with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from msprobe.compare.parallel.arrangement import (
    CONTEXT,
    MICRO,
    TENSOR,
    Coordinates,
    Grid,
    Kind,
    Mode,
    arranged,
    whole,
)
from msprobe.compare.parallel.identity import Call, Key, Part, RankCalls
from msprobe.compare.parallel.merged_dump import Suspect
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor, leaves

_SENDS, _RECEIVES = ("send", "isend"), ("recv", "irecv")
_BATCH = "batch_isend_irecv"
_SENT = "this call sends it to the next stage, and is not given what the golden run has there"
_RECEIVED = "this call receives it from the other stage"
_AGREES = 1e-3


class _State(Enum):
    AGREES = auto()
    DIFFERS = auto()
    UNKNOWN = auto()


class OutsideCalls:
    """The calls outside of modules on both sides, by identity.

    Args:
        target: the calls of the ranks of the target.
        golden: those of the golden run.
        apart: whether micro batches are kept apart.
    """

    def __init__(self, target: Sequence[RankCalls], golden: Sequence[RankCalls], *, apart: bool) -> None:
        self._target, self._golden = _gathered(target, apart), _gathered(golden, apart)
        self._ranks = target

    def suspect(self, consumer: Key, call: Call) -> Suspect | None:
        """Return the call that makes the wrong value which ``call``, of this identity, gets; None without one."""
        made = self._made_alone(call)
        if made is not None:
            return made
        candidates = list(self._before(consumer, call))
        summed = next((key for key in candidates if self._is_given_summand(key)), None)
        if summed is not None:
            return self._named(
                summed, "ranks that share a sequence hold summands of what this call is given, not added"
            )
        for key in candidates:
            reason = self._own_difference(key)
            if reason:
                return self._named(key, reason)
        moved = _transfer(self._ranks, call) if self._between_stages(call) else None
        if moved is not None:
            return moved
        undivided = next((key for key in reversed(candidates) if self._is_scalar(key)), None)
        if undivided is not None and self._is_undivided(undivided):
            return self._named(undivided, "its results for all micro batches add up to as many times that of the batch")
        first = next((key for key in candidates if self._inputs(key) is _State.DIFFERS), None)
        if first is None:
            return None
        alone = self._made_alone(next(iter(self._target[first].values()))[1])
        return alone or self._named(first, "the first call outside of the modules whose input differs")

    def _is_given_summand(self, key: Key) -> bool:
        """Return whether a forward call is given the same number on ranks that share a sequence, where these numbers
        together are that of the golden run: a count of tokens that was not added up. Over samples each rank may have
        its own count."""
        if key.phase is not Phase.FORWARD:
            return False
        golden = self._tensors(self._golden[key], INPUT)
        for path, pieces in self._tensors(self._target[key], INPUT).items():
            others = list(golden.get(path, {}).values())
            ranks = {place[TENSOR : CONTEXT + 1] for place in pieces}
            alone = len(pieces) == len(ranks) > 1 and len(others) == 1 and others[0].numel == 1
            means = [piece.mean for piece in pieces.values() if piece.mean is not None]
            if not alone or len(means) < len(pieces) or others[0].mean is None or len(set(means)) > 1:
                continue
            if not math.isclose(means[0], others[0].mean, rel_tol=_AGREES) and math.isclose(
                sum(means), others[0].mean, rel_tol=_AGREES
            ):
                return True
        return False

    def _is_scalar(self, key: Key) -> bool:
        """Return whether a forward call returns one number."""
        made = [piece for pieces in self._tensors(self._golden[key], OUTPUT).values() for piece in pieces.values()]
        return key.phase is Phase.FORWARD and len(made) == 1 and made[0].numel == 1

    def _is_undivided(self, key: Key) -> bool:
        """Return whether what a call returns for the micro batches of one rank adds up to as many times the result for
        the whole batch: their mean is that of the batch, and gradients are made of their sum."""
        golden = self._tensors(self._golden[key], OUTPUT)
        for path, pieces in self._tensors(self._target[key], OUTPUT).items():
            whole_batch = next(iter(golden.get(path, {}).values()), None)
            first = min(pieces)
            means = [piece.mean for place, piece in pieces.items() if place[:MICRO] == first[:MICRO]]
            known = [mean for mean in means if mean is not None]
            if whole_batch is not None and whole_batch.mean is not None and len(known) > 1:
                return math.isclose(sum(known), len(known) * whole_batch.mean, rel_tol=_AGREES)
        return False

    def _between_stages(self, call: Call) -> bool:
        """Return whether a call may be given what another pipeline stage has made."""
        stages = {one.stage for rank in self._ranks for one in rank.calls}
        return call.stage != (min(stages) if call.part is Part.FORWARD else max(stages))

    def _named(self, key: Key, reason: str) -> Suspect:
        rank, call = next(iter(self._target[key].values()))
        return Suspect(rank.dump.stacks.get(_forward_name(call.name), ()), reason)

    def _before(self, consumer: Key, call: Call) -> Iterator[Key]:
        """Yield the calls that both sides make before this one in its micro batch, in the order of one model."""
        first = {key: next(iter(calls.values()))[1] for key, calls in self._target.items()}
        for key, own in sorted(first.items(), key=lambda item: _turn(item[1])):
            if key in self._golden and key.micro == consumer.micro and own.part <= call.part and own.part < Part.UPDATE:
                if call.part is Part.FORWARD and not self._precedes(own, call):
                    continue
                yield key

    def _precedes(self, first: Call, second: Call) -> bool:
        for rank in self._ranks:
            made = next((name for name in rank.dump.data if name in (first.name, second.name)), None)
            if made is not None and first.name in rank.dump.data and second.name in rank.dump.data:
                return made == first.name
        return False

    def _own_difference(self, key: Key) -> str:
        """Return why a call differs by itself; "" where it does not, or where that is not known."""
        inputs = self._inputs(key)
        if key.phase is Phase.FORWARD and self._arguments_differ(key):
            return "an argument of this call outside of the modules differs"
        if inputs is not _State.AGREES or self._follows_from_forward(key):
            return ""
        differs = any(state is _State.DIFFERS for state in self._states(key, OUTPUT))
        return "this call outside of the modules gets the same and makes something else" if differs else ""

    def _follows_from_forward(self, key: Key) -> bool:
        """Return whether a backward call belongs to a forward call that gets something else: a mask, an index."""
        forward = key._replace(phase=Phase.FORWARD)
        both = key.phase is not Phase.FORWARD and forward in self._target and forward in self._golden
        return both and self._inputs(forward) is _State.DIFFERS

    def _inputs(self, key: Key) -> _State:
        states = set(self._states(key, INPUT))
        if _State.DIFFERS in states:
            return _State.DIFFERS
        return _State.UNKNOWN if _State.UNKNOWN in states else _State.AGREES

    def _states(self, key: Key, slot: str) -> Iterator[_State]:
        target, golden = self._tensors(self._target[key], slot), self._tensors(self._golden[key], slot)
        for path, pieces in target.items():
            if path in golden:
                yield _state(pieces, golden[path])

    @staticmethod
    def _tensors(calls: Mapping[Coordinates, tuple[RankCalls, Call]], slot: str) -> dict[str, dict[Coordinates, Piece]]:
        found: dict[str, dict[Coordinates, Piece]] = {}
        for place, (_, call) in calls.items():
            for leaf in leaves(call.name, call.body):
                piece = piece_of(leaf.raw) if leaf.slot == slot else None
                if piece is not None:
                    found.setdefault(leaf.suffix, {})[place] = piece
        return found

    def _arguments_differ(self, key: Key) -> bool:
        """Return whether no rank of the target gives an argument that the golden run gives."""
        ours, theirs = _arguments(self._target[key]), _arguments(self._golden[key])
        return any(
            path in theirs and not any(value in theirs[path] for value in values) for path, values in ours.items()
        )

    def _made_alone(self, call: Call) -> Suspect | None:
        """Return a call of the target alone that makes what ``call``, or the stage before it, gets: in any micro batch,
        as the values tell more than the order of calls."""
        wanted = [
            piece
            for raw in (call.body.get("input") or call.body.get("input_args") or ())
            if (piece := piece_of(raw)) is not None and piece.numel > 1
        ]
        known = {key._replace(micro=0, number=0) for key in self._golden}
        for key, calls in self._target.items():
            if key._replace(micro=0, number=0) in known:
                continue
            for rank, own in calls.values():
                made = [piece_of(leaf.raw) for leaf in leaves(own.name, own.body) if leaf.slot == OUTPUT]
                if any(piece is not None and piece.agrees(other) for piece in made for other in wanted):
                    stack = rank.dump.stacks.get(_forward_name(own.name), ())
                    return Suspect(
                        stack, "this call outside of the modules, which only the target makes, makes its input"
                    )
        return None


def _turn(call: Call) -> tuple[int, int]:
    """Return when a call is made in one model: forward from the first stage on, backward from the last."""
    return int(call.part), call.stage if call.part is Part.FORWARD else -call.stage


def _gathered(ranks: Sequence[RankCalls], apart: bool) -> dict[Key, dict[Coordinates, tuple[RankCalls, Call]]]:
    found: dict[Key, dict[Coordinates, tuple[RankCalls, Call]]] = {}
    for rank in ranks:
        at = rank.place
        for call in rank.functions:
            micro = 0 if apart else call.key.micro
            key = call.key if apart else call.key._replace(micro=0)
            found.setdefault(key, {})[at.tp, at.cp, at.dp, micro, at.pp] = rank, call
    return found


def _arguments(calls: Mapping[Coordinates, tuple[RankCalls, Call]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for _, call in calls.values():
        for leaf in leaves(call.name, call.body):
            raw = leaf.raw
            if leaf.slot == INPUT and isinstance(raw, dict) and not is_tensor(raw) and "value" in raw:
                found.setdefault(leaf.suffix, []).append(raw["value"])
    return found


def _state(target: Grid, golden: Grid) -> _State:
    pair = arranged(target, golden, Kind.ACTIVATION)
    if pair is None:
        return _State.UNKNOWN
    own, other = (whole(grid, arrangement) for grid, arrangement in zip((target, golden), pair, strict=True))
    if close(own, other):
        return _State.AGREES
    summed = any(Mode.SUM in arrangement.modes for arrangement in pair)
    return _State.UNKNOWN if summed else _State.DIFFERS


def close(own: Piece, other: Piece) -> bool:
    """Return whether two tensors agree so far that no wrong call lies between them."""
    size = max(other.norm.high if other.norm else abs(other.largest.high), 1e-30)
    pairs = [(own.mean, other.mean)]
    if own.norm and other.norm:
        nearest = own.norm.nearest(other.norm)
        pairs.append((nearest, other.norm.nearest(own.norm)))
    turns = own.projection, other.projection
    if None not in turns and not math.isclose(*turns, rel_tol=_AGREES, abs_tol=_AGREES * size):  # type: ignore[arg-type]
        return False
    return all(
        left is None
        or right is None
        or math.isclose(left, right, rel_tol=_AGREES, abs_tol=_AGREES * size / max(own.numel, 1) ** 0.5)
        for left, right in pairs
    )


def _forward_name(name: str) -> str:
    return name.removesuffix("backward") + "forward" if name.endswith(".backward") else name


def _transfer(ranks: Sequence[RankCalls], call: Call) -> Suspect | None:
    """Return the call that sends or receives what a call of a module is given; None where no such call has it."""
    given = (leaf.raw for leaf in leaves(call.name, call.body) if leaf.slot == INPUT)
    wanted = [piece for raw in given if (piece := piece_of(raw)) is not None and piece.numel > 1]
    for functions, slot, reason in ((_SENDS, INPUT, _SENT), (_RECEIVES, OUTPUT, _RECEIVED)):
        calls = ((rank.dump, name) for rank in ranks for name in _calls(rank.dump, functions))
        for dump, name in calls:
            if any(piece.agrees(other) for piece in _moved(dump, name, slot) for other in wanted):
                return Suspect(dump.stacks.get(name, ()), reason)
    return None


def _calls(dump: Dump, functions: Sequence[str]) -> Iterator[str]:
    for name in dump.data:
        parts = name.split(".")
        if len(parts) > 1 and parts[0] == "Distributed" and parts[1] in (*functions, _BATCH):
            yield name


def _moved(dump: Dump, name: str, slot: str) -> Iterator[Piece]:
    raws: Iterator[Any] = (leaf.raw for leaf in leaves(name, dump.data[name]) if leaf.slot == slot)
    yield from (piece for raw in raws if (piece := piece_of(raw)) is not None)
