"""The recorded inputs of a run on one process, cut for the ranks of a run in another layout.

Calls of modules pair by the identity by which ranks are merged (``parallel.identity``). Each tensor that the target's
call was given gets the part of the golden run's tensor of that identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.compare.fed_inputs.cuts import Way, is_cut, part_of, right_way, ways
from msprobe.compare.parallel.arrangement import Coordinates
from msprobe.compare.parallel.by_identity.side import Side, is_expert, share_experts_otherwise, side_of
from msprobe.compare.parallel.identity import Call, Key, RankCalls
from msprobe.compare.parallel.layout import Replica
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.naming import Phase
from msprobe.core.store.reader import Place
from msprobe.core.store.record_walk import is_tensor, values_below
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.tensors.input_parts import InputPart
from msprobe.trace.leaves import data_name

Votes = Counter[tuple[str, Way]]
"""How many values are known to be cut in a way: by their kind, and by the number of their axes."""
_SECTIONS = (("input_args", ".input"), ("input_kwargs", ".kwargs"))


class SplitInputs(NamedTuple):
    """The inputs of all ranks of one model.

    Attributes:
        plans: for each rank its place, and the part of the golden run for each tensor that is fed.
        left: the tensors that stay as they are, and why.
    """

    plans: list[tuple[Place, dict[str, InputPart]]]
    left: list[str]


def split_inputs(target: Place, golden: Place, votes: Votes) -> SplitInputs:
    """Return which part of the golden run's inputs each rank of the target is given.

    Args:
        target: the run whose modules are fed.
        golden: the run on one process.
        votes: what the steps before have shown; this step adds to it.

    Raises:
        NotComparableError: the golden run is spread over ranks, or has no tensor files, or a side has no modules.
        ReadError: a document is damaged.
    """
    if isinstance(golden, Replica):
        raise NotComparableError("the golden run is spread over ranks; record the inputs on one process")
    sides = side_of(target), side_of(golden)
    if not all(any(rank.calls for rank in side.ranks) for side in sides):
        raise NotComparableError("a side has no calls of modules; record both at level L0 or mix")
    counts = [max(rank.micro for rank in side.ranks) for side in sides]
    for side in sides:
        side.gather(apart=counts[0] == counts[1])
    split = _Split(*sides, apart=counts[0] == counts[1], votes=votes)
    plans = split.plans()
    if not any(plans):
        reason = f" ({split.left[0]})" if split.left else ""
        raise NotComparableError(f"no input of the golden run belongs to a call of the target{reason}")
    places = [member for stage in target.members for member in stage] if isinstance(target, Replica) else [target]
    return SplitInputs(list(zip(places, plans, strict=True)), list(dict.fromkeys(split.left)))


class _Value(NamedTuple):
    """A tensor argument of an identity: what each place recorded of it, the file of the whole, and the open ways."""

    pieces: Mapping[Coordinates, Mapping[str, Any]]
    file: Path
    shape: tuple[int, ...]
    choices: list[Way]


@dataclass(slots=True)
class _Split:
    """The split of one model."""

    target: Side
    golden: Side
    apart: bool
    votes: Votes
    left: list[str] = field(default_factory=list)
    values: dict[tuple[Key, str], _Value] = field(default_factory=dict)
    ways: dict[tuple[Key, str], Way] = field(default_factory=dict)

    def plans(self) -> list[dict[str, InputPart]]:
        """Return the plan of each rank, in the order of the ranks."""
        for key, calls in self.target.calls.items():
            if key.phase is Phase.FORWARD:
                self._find_values(key, _first_stages(calls))
        self._choose()
        return [dict(self._parts(rank)) for rank in self.target.ranks]

    def _find_values(self, key: Key, calls: Mapping[Coordinates, Call]) -> None:
        recorded = _first_stages(self.golden.calls.get(key, {}))
        if not recorded:
            self.left.append(f"{key.path}: the golden run has no such call")
            return
        if is_expert(key) and share_experts_otherwise(self.target, self.golden):
            self.left.append(f"{key.path}: the tokens of an expert come in an order of their own")
            return
        golden = next(iter(recorded.values()))
        for name, raw in _tensors(golden.body):
            pieces = {at: node for at, call in calls.items() if (node := dict(_tensors(call.body)).get(name))}
            file, shape = data_name(raw), tuple(raw["shape"])
            place = f"{key.path}{name}"
            if file is None or not pieces:
                self.left.append(f"{place}: {'no tensor file in the golden run' if file is None else 'no tensor here'}")
                continue
            if len(recorded) > 1:
                self.left.append(f"{place}: the golden run computes it in several micro batches")
                continue
            choices = ways(pieces, shape)
            if not choices:
                self.left.append(f"{place}: the pieces do not tile {list(shape)}")
                continue
            folder = self.golden.ranks[0].dump.tensor_folder
            self.values[key, name] = _Value(pieces, folder / file, shape, choices)

    def _choose(self) -> None:
        """Choose the way of each value: by its statistics, else the way that most values of its kind have."""
        votes = self.votes
        for at, value in self.values.items():
            way = value.choices[0] if len(value.choices) == 1 else self._proven(value)
            if way is not None:
                self.ways[at] = way
                votes.update([(_kind(at), way), *((_rank(value), (cut,)) for cut in way)])
        for at, value in self.values.items():
            if at in self.ways:
                continue
            kind = _kind(at)
            scores = [(votes[kind, way], sum(votes[_rank(value), (cut,)] for cut in way)) for way in value.choices]
            known = value.choices[scores.index(max(scores))]
            if max(scores)[0] or (max(scores)[1] and all(map(is_cut, value.choices))):
                self.ways[at] = known
            else:
                self.left.append(f"{at[0].path}{at[1]}: nothing tells which part each rank has")

    def _proven(self, value: _Value) -> Way | None:
        try:
            whole = read_tensor(value.file)
        except ReadError:
            return None
        return right_way(value.choices, value.pieces, whole)

    def _parts(self, rank: RankCalls) -> Iterator[tuple[str, InputPart]]:
        for call in rank.calls:
            key = call.key if self.apart else call.key._replace(micro=0)
            calls = self.target.calls[key]
            at = next((at for at, own in calls.items() if own is call), None)
            if key.phase is not Phase.FORWARD or at is None or at[:-1] not in (own := _first_stages(calls)):
                continue
            if own[at[:-1]] is not call:
                continue  # a module around several stages is given its input by the first of them
            for name, _ in _tensors(call.body):
                if (way := self.ways.get((key, name))) is not None:
                    value = self.values[key, name]
                    yield f"{call.name}{name}", InputPart(value.file, part_of(way, at[:-1], value.pieces, value.shape))


def _rank(value: _Value) -> str:
    """Return the number of axes of a value, which tells activations from weights and lists of samples."""
    return str(len(value.shape))


def _kind(at: tuple[Key, str]) -> str:
    """Return what the values of all layers have in common: the path without numbers, and the argument."""
    return ".".join(part for part in at[0].path.split(".") if not part.isdigit()) + at[1]


def _first_stages(calls: Mapping[Coordinates, Call]) -> dict[Coordinates, Call]:
    """Return the calls of an identity by coordinates without the stage: those of the stage where data comes in."""
    lowest = min((at[-1] for at in calls), default=0)
    return {at[:-1]: call for at, call in calls.items() if at[-1] == lowest}


def _tensors(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tensor arguments of a call, each with the end of the name that its file has."""
    for section, path in _SECTIONS:
        for leaf in values_below(body.get(section), path):
            if is_tensor(leaf.raw):
                yield leaf.suffix, leaf.raw
