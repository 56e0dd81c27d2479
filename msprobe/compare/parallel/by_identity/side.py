"""One side of a merge: the calls of all its ranks by identity, and the dump that the merged records make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from msprobe.compare.parallel.arrangement import Coordinates
from msprobe.compare.parallel.identity import Call, Key, Part, RankCalls, rank_calls
from msprobe.compare.parallel.layout import Coordinates as RankPlace
from msprobe.compare.parallel.layout import Replica
from msprobe.compare.parallel.merged_dump import MergedDump
from msprobe.core.store.reader import Dump, Place, load_dump

_EXPERT = "expert"
_SECTIONS: dict[str, type] = {"input_args": list, "input_kwargs": dict, "parameters": dict}


@dataclass(slots=True)
class Side:
    """One run: the calls of each identity with their coordinates.

    Attributes:
        ranks: the calls of the ranks.
        calls: by identity, the calls that hold pieces of it.
        sharing: how many data-parallel ranks share parameters, as the user says; 1 where the records tell.
    """

    ranks: list[RankCalls]
    calls: dict[Key, dict[Coordinates, Call]] = field(default_factory=dict)
    sharing: int = 1

    def gather(self, *, apart: bool) -> None:
        """Collect the calls by identity; micro batches are pieces unless they are kept ``apart``."""
        self.calls = {}
        for rank in self.ranks:
            place = rank.place
            for call in rank.calls:
                micro = 0 if apart else call.key.micro
                key = call.key if apart else call.key._replace(micro=0)
                at = (place.tp, place.cp, place.dp, micro, 0, call.stage)
                self.calls.setdefault(key, {}).setdefault(at, call)


def side_of(place: Place, load: Callable[[Place], Dump] = load_dump) -> Side:
    """Return the side that a place holds: one process, or the ranks of a parallel model.

    ``load`` reads the dump of a process.
    """
    if not isinstance(place, Replica):
        return Side(rank_calls([_calls_of(load(place))], [RankPlace()], 1))
    members = [member for stage in place.members for member in stage]
    at = [one for stage in place.coordinates for one in stage]
    return Side(rank_calls([_calls_of(load(member)) for member in members], at, place.chunks), sharing=place.sharing)


def _calls_of(dump: Dump) -> Dump:
    """Return a dump without the records that are no calls: values that the program saved, and damaged records."""
    if all(map(_is_call, dump.data.values())):
        return dump
    return replace(dump, data={name: body for name, body in dump.data.items() if _is_call(body)})


def _is_call(body: Any) -> bool:
    """Return whether a record has its sections in the form of a call."""
    return isinstance(body, dict) and all(
        isinstance(body[section], kind) for section, kind in _SECTIONS.items() if section in body
    )


def is_expert(key: Key) -> bool:
    """Return whether an identity is that of an expert, or of a module inside of one."""
    return any(_EXPERT in before and part.isdigit() for before, part in pairwise(key.path.split(".")))


def share_experts_otherwise(*sides: Side) -> bool:
    """Return whether two sides share tokens among experts in another way, so that each has rows in its own order."""
    shared = [{(rank.place.ep, rank.place.dp, rank.place.cp) for rank in side.ranks} for side in sides]
    return shared[0] != shared[1]


def dump_of(side: Side, records: Mapping[Key, dict[str, Any]], names: Mapping[Key, str]) -> MergedDump:
    """Return the dump of the merged records of a side; ``names`` are what the identities are called in it."""
    first = side.ranks[0].dump
    construct: dict[str, Any] = {}
    stacks: dict[str, list[str]] = {}
    by_name = [{call.name: call.key for call in rank.calls} for rank in side.ranks]
    known = set(records)
    for rank, keys in zip(side.ranks, by_name, strict=True):
        for call in rank.calls:
            key = _kept(call.key, known)
            if key not in known:
                continue
            parent = keys.get(call.parent or "")
            parent = None if parent is None else _kept(parent, known)
            construct.setdefault(names[key], names[parent] if parent in known else None)
            if call.name in rank.dump.stacks:
                stacks.setdefault(names[key], rank.dump.stacks[call.name])
    data = {names[key]: records[key] for key in _ordered(side, known)}
    shared = {each.name: getattr(first, each.name) for each in fields(Dump)}
    return MergedDump(**{**shared, "data": data, "construct": construct, "stacks": stacks})


def _kept(key: Key, known: Iterable[Key]) -> Key:
    return key if key in known else key._replace(micro=0)


def _ordered(side: Side, known: set[Key]) -> list[Key]:
    """Return the identities in the order of execution of one model: forward from the first stage on, then backward from
    the last stage on."""
    stages = 1 + max((call.stage for rank in side.ranks for call in rank.calls), default=0)
    places: dict[Key, tuple[int, int, int, int]] = {}
    for rank in side.ranks:
        for position, call in enumerate(rank.calls):
            key = _kept(call.key, known)
            stage = stages - call.stage if call.part is Part.BACKWARD else call.stage
            at = (int(call.part), key.micro, stage, position)
            if key not in places or at[2] > places[key][2]:  # a module around several stages ends with the last one
                places[key] = at
    return sorted(known & places.keys(), key=places.__getitem__)
