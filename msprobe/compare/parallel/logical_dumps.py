"""Two dumps in which every value stands once, whole, under the same name, whatever layouts the runs had.

The calls of modules of all ranks get identities (``identity``); the pieces of each value are arranged beside those of
the other side (``arrangement``), and their wholes make a record (``by_identity``). Calls of functions are left out:
another layout makes other calls, and values of modules decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe.compare.parallel.arrangement import Coordinates
from msprobe.compare.parallel.blame.sizes_fit import MergedSide, refuse_other_sizes
from msprobe.compare.parallel.blame.wrong_ranks import RanksOfValues
from msprobe.compare.parallel.by_identity.side import Side, dump_of, share_experts_otherwise, side_of
from msprobe.compare.parallel.by_identity.value_merge import MergedValues, ValueMerge
from msprobe.compare.parallel.gradient_scale import gradient_scale
from msprobe.compare.parallel.identity import WHOLE_MODEL, Call, Key
from msprobe.compare.parallel.merged_dump import Suspect, WrongRanks
from msprobe.compare.parallel.outside_modules.optimizer_gradients import (
    AT_OPTIMIZER,
    WrongUpdates,
    add_optimizer_gradients,
)
from msprobe.compare.parallel.outside_modules.outside_calls import OutsideCalls
from msprobe.compare.parallel.roundings import rounded_alike
from msprobe.compare.parallel.tied_parameters import tie
from msprobe.core.naming import ModuleName, Phase
from msprobe.core.store.reader import Dump, Place

_LISTED = 3
LEFT_OUT = "ranks are merged by the values of modules; calls of functions are left out, and explain only what is wrong"


def logical_pair(left: Place, right: Place, load: Callable[[Place], Dump]) -> tuple[Dump, Dump, list[str]] | None:
    """Return the dumps of two models with every value whole, and lines about what was left out.

    The result is None where a side records no calls of modules. ``load`` reads the dump of a process.

    Raises:
        ReadError: a document is damaged.
        NotComparableError: ranks have another layout than was told.
    """
    target, golden = side_of(left, load), side_of(right, load)
    if not all(any(rank.calls for rank in side.ranks) for side in (target, golden)):
        return None
    add_optimizer_gradients((target.ranks, golden.ranks))
    counts = [max(rank.micro for rank in side.ranks) for side in (target, golden)]
    apart = counts[0] == counts[1]
    for side in (target, golden):
        side.gather(apart=apart)
    _forget_model_of_one_side(target.calls, golden.calls)
    tie(target.calls, golden.calls)
    values = MergedValues((target.sharing, golden.sharing), share_experts_otherwise(target, golden))
    made = _Merge(target, golden, apart, values).dumps()
    left_side = MergedSide(left, target.ranks, target.calls, values.unclear[0])
    right_side = MergedSide(right, golden.ranks, golden.calls, values.unclear[1])
    refuse_other_sizes((left_side, right_side), values.modes)
    return made


def _forget_model_of_one_side(*sides: dict[Key, dict[Coordinates, Call]]) -> None:
    """Take out what the model itself returns where one side alone records it: without a wrapper nothing does."""
    for own, other in (sides, sides[::-1]):
        for key in [key for key in own if key.path == WHOLE_MODEL and key not in other]:
            del own[key]


@dataclass(slots=True)
class _Merge:
    """The merge of both sides: records by identity, and what is known of their values. ``apart`` says whether micro
    batches are kept apart."""

    target: Side
    golden: Side
    apart: bool
    values: MergedValues
    records: tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]] = field(default_factory=lambda: ({}, {}))

    def dumps(self) -> tuple[Dump, Dump, list[str]]:
        sides = self.target, self.golden
        keys = dict.fromkeys([*self.golden.calls, *self.target.calls])
        forward = [key for key in keys if key.phase is Phase.FORWARD]
        rest = [key for key in keys if key.phase is not Phase.FORWARD]
        for key in forward:
            self._merge_calls(key, 1.0)
        scale = gradient_scale(*(side.calls for side in sides))
        for key in rest:
            self._merge_calls(key, 1.0 if key.function else scale)
        for sums in self.values.partial_sums:
            sums.mark()
        names = self._names(keys)
        made = [dump_of(side, records, names) for side, records in zip(sides, self.records, strict=True)]
        if {dump.task for dump in made} == {"tensor", "statistics"}:  # tensors are merged by their statistics
            made = [replace(dump, task="statistics") for dump in made]
        suspects = _Suspects((self.target, self.golden), {name: key for key, name in names.items()}, self.apart)
        alike = rounded_alike(self.target.ranks, self.golden.ranks)
        rounded = frozenset(name for key, name in names.items() if key.path in alike and key.phase is Phase.FORWARD)
        summands = self.values.partial_sums[0].makers(names)
        reduced = frozenset(name for key, name in names.items() if key.function == AT_OPTIMIZER)
        made[0] = replace(
            made[0],
            suspect=suspects.of,
            update=suspects.of_update,
            rounded=rounded,
            summands=summands,
            reduced=reduced,
            blame=suspects.ranks_of,
        )
        notes = [
            f"{side}: {len(places)} values make no whole ({'; '.join(places[:_LISTED])})"
            for side, places in zip(("target", "golden run"), self.values.unclear, strict=True)
            if places
        ]
        return made[0], made[1], [LEFT_OUT, *notes]

    def _names(self, keys: Collection[Key]) -> dict[Key, str]:
        """Return the names that identities get in both dumps."""
        numbers: dict[Key, int] = {}
        behind: dict[tuple[str, Phase], int] = {}
        for key in (key for key in keys if not key.function):
            turns = 1 + max(each.turn for each in self._turns(key))
            numbers[key] = key.micro * turns + key.turn
            behind[key.path, key.phase] = max(behind.get((key.path, key.phase), 0), numbers[key] + 1)
        names = {}
        for key in keys:
            call = next(iter((self.golden.calls.get(key) or self.target.calls[key]).values()))
            number = numbers.get(key, behind.get((key.path, key.phase), 0))
            names[key] = str(ModuleName("Module", key.path, call.cls, key.phase, number))
        return names

    def _turns(self, key: Key) -> Iterator[Key]:
        turn = 0
        while key._replace(turn=turn) in self.golden.calls or key._replace(turn=turn) in self.target.calls:
            yield key._replace(turn=turn)
            turn += 1

    def _merge_calls(self, key: Key, scale: float) -> None:
        calls = self.target.calls.get(key, {}), self.golden.calls.get(key, {})
        bodies = [_across_stages(own) for own in calls]
        for side, own in enumerate(bodies):
            if own:
                other = bodies[1 - side]
                factors = (1.0 / scale, 1.0) if side == 0 else (1.0, 1.0 / scale)
                self.records[side][key] = self._record(key, side, (own, other), factors)

    def _record(
        self,
        key: Key,
        side: int,
        bodies: tuple[Mapping[Coordinates, Any], Mapping[Coordinates, Any]],
        factors: tuple[float, float],
    ) -> dict[str, Any]:
        walk = ValueMerge(self.values, key, side, factors)
        record: dict[str, Any] = walk.node(dict(bodies[0]), dict(bodies[1]), ())
        return record


@dataclass(slots=True)
class _Suspects:
    """What makes a wrong input outside of modules, by the name of the module call that gets it."""

    sides: tuple[Side, Side]
    keys: Mapping[str, Key]
    apart: bool

    def of(self, name: str) -> Suspect | None:
        key = self.keys.get(name)
        calls = {} if key is None else self.sides[0].calls.get(key, {})
        if key is None or not calls:
            return None
        if key.function:
            return None
        outside = OutsideCalls(self.sides[0].ranks, self.sides[1].ranks, apart=self.apart)
        return outside.suspect(key, next(iter(calls.values())))

    def of_update(self, name: str) -> Suspect | None:
        """Return what makes a gradient wrong that the optimizer gets; None for other entries."""
        if getattr(self.keys.get(name), "function", "") != AT_OPTIMIZER:
            return None
        key, suspect = WrongUpdates(self.sides[0].ranks, self.sides[1].ranks).suspect()
        entry = next((entry for entry, own in self.keys.items() if own == key), name)
        return replace(suspect, entry=entry)

    def ranks_of(self, name: str, slot: str | None) -> WrongRanks:
        """Return the ranks of the target to blame for a value; none where one rank holds the model."""
        key, (target, golden) = self.keys.get(name), self.sides
        if key is None or len(target.ranks) == 1:
            return WrongRanks()
        return RanksOfValues(target.ranks, target.calls, golden.calls).wrong(name, key, slot)


def _across_stages(calls: Mapping[Coordinates, Call]) -> dict[Coordinates, Mapping[str, Any]]:
    """Return the records of an identity by coordinates without the stage; a module that several stages have (one around
    the layers) takes its inputs from the stage where data comes in, and its results from the last one."""
    by_rank: dict[Coordinates, list[Call]] = {}
    for place in sorted(calls, key=lambda at: at[-1]):
        by_rank.setdefault(place[:-1], []).append(calls[place])
    return {place: _joined_stages([call.body for call in own]) for place, own in by_rank.items()}


def _joined_stages(bodies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    from msprobe.compare.parallel.by_name.pipeline import join_stage_records

    result = bodies[0]
    for body in bodies[1:]:
        result = join_stage_records(result, body)
    return result
