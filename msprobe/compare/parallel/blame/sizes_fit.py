"""Whether the layout that a user told can be that of the ranks.

Sizes with the right product may still be wrong. Then nothing that is compared means what its name says, and what the
comparison would answer (copies have come apart, shapes differ) leads astray. Each rule needs evidence that no single
fault of a program leaves: modules on the wrong ranks and layers too few or too many, most parameters in parts that make
no whole, replicas that are no replicas. They are asked where something fits badly only, so they cost nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.compare.parallel.arrangement import MICRO, TENSOR, Coordinates, Grid, Kind, Mode, Modes, arranged
from msprobe.compare.parallel.identity import Call, Key, RankCalls
from msprobe.compare.parallel.layout import Replica
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.core.errors import NotComparableError
from msprobe.core.naming import ModuleName, NameSyntaxError, Phase, parse_entry
from msprobe.core.store.reader import Dump, Place, load_dump

_EXPERT = "expert"
_SIDES = ("target", "golden run")


@dataclass(frozen=True, slots=True)
class MergedSide:
    """One side of a merge.

    Attributes:
        place: where it lies.
        ranks: the calls of its ranks.
        calls: by identity, the calls that hold pieces of it.
        unclear: the values of which the pieces make no whole.
    """

    place: Place
    ranks: Sequence[RankCalls]
    calls: Mapping[Key, Mapping[Coordinates, Call]]
    unclear: Sequence[str]


def refuse_other_sizes(
    sides: tuple[MergedSide, MergedSide], modes: Mapping[tuple[int, Key, tuple[Any, ...]], Modes]
) -> None:
    """Raise NotComparableError where the ranks of a side have another layout than was told.

    ``modes`` are, by side, identity and path of a value, what its pieces are along each axis.
    """
    rules: Sequence[Callable[[MergedSide, MergedSide], str]] = (
        _other_stages,
        lambda own, _: _no_tensor_parallelism(own, modes, int(own is sides[1])),
        _other_parts,
    )
    for rule in rules:
        for side, own, other in zip(_SIDES, sides, sides[::-1], strict=True):
            reason = rule(own, other) if isinstance(own.place, Replica) else ""
            if reason and isinstance(own.place, Replica):
                raise NotComparableError(f"the sizes do not fit: {own.place.told} is said of the {side}, {reason}")


def _other_stages(own: MergedSide, other: MergedSide) -> str:
    """Return why the ranks hold other layers than the sizes say."""
    if own.calls.keys() == other.calls.keys():
        return ""
    lacking, further = _lacking(other, own), _lacking(own, other)
    if not lacking and not further:
        return ""
    counts = f"together they have {_layers(own)} layers, and the other side has {_layers(other)}"
    by_stage: dict[int, list[RankCalls]] = {}
    for rank in own.ranks:
        by_stage.setdefault(rank.place.pp, []).append(rank)
    for ranks in by_stage.values() if lacking else ():
        first, *others = ranks
        for rank in others:
            only = _modules(first) ^ _modules(rank)
            if only:
                holder, less = (first, rank) if min(only) in _modules(first) else (rank, first)
                return (
                    f"by which ranks {_number(first)} and {_number(rank)} are of one pipeline stage; but rank "
                    f"{_number(holder)} has {min(only)}, which rank {_number(less)} has not, and {counts}"
                )
    outside = [{path for path in _modules(ranks[0]) if not _in_list(path)} for ranks in by_stage.values()]
    if further and len(outside) > 1 and outside[0] and all(each == outside[0] for each in outside):
        return f"but every pipeline stage has {min(outside[0])}, and {counts}"
    return _no_replicas(own, counts) if lacking else ""


def _no_replicas(own: MergedSide, counts: str) -> str:
    beside = own.place.beside if isinstance(own.place, Replica) else None
    if beside is None:
        return ""
    first = own.ranks[0]
    if _recorded_modules(load_dump(beside)) == _recorded_modules(first.dump):
        return ""
    return f"by which ranks {_number(first)} and {beside.number} are replicas; but their modules differ, and {counts}"


def _other_parts(own: MergedSide, other: MergedSide) -> str:
    """Return why the ranks hold other parts of tensors than the sizes say."""
    if not own.unclear or not isinstance(own.place, Replica):
        return ""
    unfit, cut = [], 0
    for path, name, grid, golden in _parameters(own, other):
        pair = arranged(grid, golden, Kind.PARAMETER)
        if pair is None:
            unfit.append((path, name, _total(grid), _total(golden)))
        else:
            cut += any(Mode.CUT in each.modes for each in pair)
    if len(unfit) > max(cut, 1):
        path, name, size, whole = unfit[0]
        words = "overlap" if size > whole else "leave a gap"
        return (
            f"but the parts of {len(unfit)} parameters {words}: those of {path}.{name} have {size} elements, "
            f"and the other side has {whole}"
        )
    if not unfit and own.place.count > 1:
        return _samples_of_replicas(own, other, own.place.count)
    return ""


def _samples_of_replicas(own: MergedSide, other: MergedSide, count: int) -> str:
    """Return that replicas have samples of their own, where together they have those of the other side."""
    first = next((call for call in own.ranks[0].calls if call.key.phase is Phase.FORWARD), None)
    if first is None:
        return ""
    key = next(key for key, calls in own.calls.items() if first in calls.values())
    size, whole = (_given(side.calls.get(key, {})) for side in (own, other))
    if not size or size * count != whole:
        return ""
    return (
        f"which makes {count} replicas of the model, and each of them gives {size} elements to {key.path}, the other "
        f"side {whole}: tell how many replicas are to be compared together (dp=)"
    )


def _no_tensor_parallelism(
    own: MergedSide, modes: Mapping[tuple[int, Key, tuple[Any, ...]], Modes], number: int
) -> str:
    """Return that ranks of tensor parallelism have the same parameters and inputs of their own."""
    size = 1 + max(rank.place.tp for rank in own.ranks)
    if size == 1:
        return ""
    parameters = [
        own_modes for (side, _, path), own_modes in modes.items() if side == number and path[0] == "parameters"
    ]
    if not parameters or any(each[TENSOR] is not Mode.COPY for each in parameters):
        return ""
    first = next((call for call in own.ranks[0].calls if call.key.phase is Phase.FORWARD), None)
    taken = [
        each[TENSOR]
        for (side, key, path), each in modes.items()
        if first is not None and side == number and key.path == first.key.path and path[0] in ("input_args", "output")
    ]
    if not taken or Mode.CUT not in taken:
        return ""
    return (
        f"but all ranks of tp={size} hold the same parameters, and rank 0 and rank 1 have samples or tokens of their "
        "own: such ranks are of data or context parallelism (dp=, cp=)"
    )


def _lacking(has: MergedSide, lacks: MergedSide) -> set[str]:
    """Return the modules with parameters that only one side has."""
    return {path for rank in has.ranks for path in _modules(rank)} - {
        path for rank in lacks.ranks for path in _modules(rank)
    }


def _modules(rank: RankCalls) -> set[str]:
    """Return the paths of modules with parameters on a rank; experts lie on ranks of their own."""
    return {
        call.key.path
        for call in rank.calls
        if call.key.phase is Phase.FORWARD and call.body.get("parameters") and _EXPERT not in call.key.path
    }


def _recorded_modules(dump: Dump) -> set[str]:
    """Return the paths of the modules that a rank records, as it names them."""
    found = set()
    for name in dump.data:
        try:
            entry = parse_entry(name)
        except NameSyntaxError:
            continue
        if isinstance(entry, ModuleName) and _EXPERT not in entry.path:
            found.add(entry.path)
    return found


def _in_list(path: str) -> bool:
    return any(part.isdigit() for part in path.split("."))


def _layers(side: MergedSide) -> int:
    """Return the number of layers: the elements of the first list on the way to each module."""
    layers = set()
    for rank in side.ranks:
        for path in _modules(rank):
            parts = path.split(".")
            number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
            if number is not None:
                layers.add(".".join(parts[: number + 1]))
    return len(layers)


def _parameters(own: MergedSide, other: MergedSide) -> Iterator[tuple[str, str, Grid, Grid]]:
    for key, calls in own.calls.items():
        if key.phase is not Phase.FORWARD or key.turn or key.micro or key not in other.calls:
            continue
        for name in next(iter(calls.values())).body.get("parameters") or ():
            grids = [_grid(side.calls[key], "parameters", name) for side in (own, other)]
            if all(grids):
                yield key.path, name, grids[0], grids[1]


def _given(calls: Mapping[Coordinates, Call]) -> int:
    """Return how many elements the first argument of a call has on all ranks and in all micro batches; copies count
    once."""
    batches: dict[int, list[Piece]] = {}
    for place, piece in _grid(calls, "input_args", 0).items():
        batches.setdefault(place[MICRO], []).append(piece)
    copied = all(own[0].agrees(piece) for own in batches.values() for piece in own)
    return sum(own[0].numel if copied else sum(piece.numel for piece in own) for own in batches.values())


def _grid(calls: Mapping[Coordinates, Call], section: str, name: Any) -> Grid:
    grid = {}
    for place, call in calls.items():
        values = call.body.get(section)
        fits = name in values if isinstance(values, dict) else isinstance(values, list) and len(values) > name
        piece = piece_of(values[name]) if fits and values is not None else None
        if piece is not None:
            grid[place[:-1]] = piece
    return grid


def _total(grid: Grid) -> int:
    """Return the number of elements of all pieces."""
    return sum(piece.numel for piece in grid.values())


def _number(rank: RankCalls) -> int:
    return rank.dump.place.number or 0
