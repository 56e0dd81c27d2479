"""The layout of a training on its ranks, and the ranks that hold one model together.

With sizes ``n_d`` of the dimensions in their order, the fastest first, the rank with the coordinates ``c_d`` is
``c_0 + n_0 (c_1 + n_1 (c_2 + ...))``. The default order is that of Megatron: tensor parallelism, data parallelism,
pipeline stages. Dimensions without a stated size (context, expert) have size 1; data parallelism is the rest.

    tp=2,pp=2 with 8 ranks: replica 0 is ranks 0 1 | 4 5, replica 1 is ranks 2 3 | 6 7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.reader import Place

DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")
ORDER = "-".join(DIMENSIONS)
_RANK = "rank"
_SIZES = ("tp", "pp", "cp", "ep", "dp", "vpp", "zero")
_AMONG_DATA = {"ep": "share experts", "zero": "share parameters or states"}
"""Sizes that count ranks of data parallelism, and what these ranks do."""
_LISTED = 8
_NO_RECORDS = "no records of rank"


class Coordinates(NamedTuple):
    """The place of a rank in a layout: its number along each dimension. Ranks of expert parallelism, and those that
    share parameters (ZeRO), are those of data parallelism, so ``ep`` follows from ``dp``."""

    tp: int = 0
    cp: int = 0
    dp: int = 0
    pp: int = 0
    ep: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the dimensions; where data parallelism is not stated, the rest of the ranks are replicas, each compared
    by itself.

    Attributes:
        tp: ranks that share each tensor.
        pp: number of pipeline stages.
        cp: ranks that share each sequence.
        ep: data-parallel ranks that share the experts.
        dp: ranks with samples of their own that are compared together.
        vpp: model chunks per pipeline stage.
        zero: data-parallel ranks that share parameters, gradients or states of the optimizer; 1 where records say it.
        order: the dimensions by how fast they change with the rank number, the fastest first.
        rank_size: number of ranks of a step; 0 when the dumps decide.
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    vpp: int = 1
    zero: int = 1
    order: str = ORDER
    rank_size: int = 0

    def __str__(self) -> str:
        sizes = ((name, getattr(self, name)) for name in _SIZES)
        return ",".join(f"{name}={size}" for name, size in sizes if size > 1 or name in ("tp", "pp"))

    @property
    def spread(self) -> bool:
        """Whether several ranks hold one model."""
        return self.tp * self.pp * self.cp * self.dp > 1

    @property
    def size(self) -> int:
        """Return the number of ranks that are compared together."""
        return self.tp * self.pp * self.cp * self.dp

    def coordinates(self, rank: int, ranks: int) -> tuple[int, Coordinates]:
        """Return the replica and the place of a rank, of ``ranks`` in all."""
        sizes = {"tp": self.tp, "cp": self.cp, "pp": self.pp, "dp": ranks // (self.tp * self.cp * self.pp)}
        at: dict[str, int] = {}
        for name in self.order.split("-"):
            rank, at[name] = divmod(rank, sizes.get(name, 1))
        replica, data = divmod(at["dp"], self.dp)
        return replica, Coordinates(at["tp"], at.get("cp", 0), data, at["pp"], data % self.ep)

    def groups(self, dimension: str, ranks: int = 0) -> list[list[int]]:
        """Return the groups of ranks that differ in one dimension only, each ascending, ordered by their first rank.

        ``ranks`` is the number of ranks where the layout does not state it.
        """
        count = self.rank_size or ranks
        sizes = {"tp": self.tp, "pp": self.pp, "dp": count // (self.tp * self.pp)}
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in range(count):
            rest, key = rank, []
            for name in self.order.split("-"):
                rest, coordinate = divmod(rest, sizes.get(name, 1))
                if name != dimension:
                    key.append(coordinate)
            groups.setdefault(tuple(key), []).append(rank)
        return sorted(groups.values())

    def replicas(self, ranks: int = 0) -> list[list[list[int]]]:
        """Return the ranks of each replica: by pipeline stage, then by tensor-parallel rank."""
        pipelines = {group[0]: group for group in self.groups("pp", ranks)}
        first_stages = (group for group in self.groups("tp", ranks) if group[0] in pipelines)
        return [list(map(list, zip(*map(pipelines.__getitem__, group), strict=True))) for group in first_stages]


def parse_layout(given: Any, what: str = "layout") -> Layout:
    """Return the layout of ``"tp=2,pp=1"``, of a dict of the sizes, or of None (one rank per model).

    Raises:
        MsprobeException: the text cannot be understood, or a size is no positive whole number.
    """
    if given is None or isinstance(given, Layout):
        return given or Layout()
    pairs = given.items() if isinstance(given, dict) else [part.partition("=")[::2] for part in str(given).split(",")]
    sizes: dict[str, int] = {}
    for key, value in pairs:
        name, text = str(key).strip().lower(), str(value).strip()
        if name not in _SIZES or not text.isascii() or not text.isdigit() or int(text) < 1 or name in sizes:
            raise MsprobeException(
                MsprobeException.INVALID_PARAM_ERROR,
                f"{what}: {given!r} is no layout; give sizes such as tp=2,pp=1 (each once, at least 1)",
            )
        sizes[name] = int(text)
    sizes.setdefault("dp", max(sizes.get(name, 1) for name in _AMONG_DATA))
    for name, purpose in _AMONG_DATA.items():
        if sizes["dp"] % sizes.get(name, 1):
            raise MsprobeException(
                MsprobeException.INVALID_PARAM_ERROR,
                f"{what}: {given!r} is no layout; {name}={sizes[name]} does not divide dp={sizes['dp']}, and ranks "
                f"that {purpose} are data-parallel ones",
            )
    tp, pp, cp, ep, dp, vpp, zero = (sizes.get(name, 1) for name in _SIZES)
    return Layout(tp, pp, cp, ep, dp, vpp, zero)


def layout_of_sizes(rank_size: int, tp: int, pp: int, vpp: int = 1, order: str = ORDER) -> Layout:
    """Return the layout of these sizes.

    Raises:
        MsprobeException: the sizes contradict each other; the message says which and what would fit.
    """
    for name, value in (("--rank_size", rank_size), ("--tp", tp), ("--pp", pp), ("--vpp", vpp)):
        if value < 1:
            raise _layout_error(f"{name} {value}: give a number of at least 1")
    for name, value in (("--tp", tp), ("--pp", pp)):
        if rank_size % value:
            raise _layout_error(f"{name} {value} does not divide --rank_size {rank_size}")
    if rank_size % (tp * pp):
        raise _layout_error(f"--tp {tp} times --pp {pp} is {tp * pp}, which does not divide --rank_size {rank_size}")
    if vpp > 1 and pp < 2:
        raise _layout_error(f"--vpp {vpp} needs --pp of at least 2, got {pp}")
    words = order.split("-")
    if sorted(words) != sorted(set(words)) or not {"tp", "pp", "dp"} <= set(words) <= set(DIMENSIONS):
        raise _layout_error(f"--order {order!r}: name tp, dp and pp once each, cp and ep at most once, such as {ORDER}")
    return Layout(tp, pp, vpp=vpp, order=order, rank_size=rank_size)


def layouts_of_flags(
    sizes: Mapping[str, Sequence[int]], orders: Sequence[str], sides: int
) -> tuple[Layout, ...] | None:
    """Return the layout of each side from the values of the command line; None when no ranks are to be merged.

    Args:
        sizes: the values of rank_size, tp, pp and vpp by name; a single value serves both sides.
        orders: the values of ``--order``.
        sides: 1, or 2 where a golden run is compared with.

    Raises:
        MsprobeException: a size is missing, or there are more values than sides.
    """
    if not any(sizes[name] for name in ("rank_size", "tp", "pp")):
        if sizes["vpp"] or orders:
            raise _layout_error("--vpp and --order need --rank_size, --tp and --pp")
        return None
    for name, values in (*sizes.items(), ("order", orders)):
        if not values and name in ("rank_size", "tp", "pp"):
            raise _layout_error(f"--{name} is missing; merging needs --rank_size, --tp and --pp")
        if len(values) not in (0, 1, sides):
            raise _layout_error(f"--{name} has {len(values)} values; give {'one' if sides == 1 else 'one or two'}")
    layouts = []
    for side in range(sides):
        own = {name: values[min(side, len(values) - 1)] if values else 1 for name, values in sizes.items()}
        order = orders[min(side, len(orders) - 1)] if orders else ORDER
        layouts.append(layout_of_sizes(own["rank_size"], own["tp"], own["pp"], own["vpp"], order))
    return tuple(layouts)


def _layout_error(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)


@dataclass(frozen=True, slots=True)
class Replica(Place):
    """A model that several ranks hold together. It has the document of its first rank.

    Attributes:
        number: the number of the replica.
        members: the places of its ranks, by pipeline stage, then by their number.
        coordinates: where each of ``members`` is in the layout, in the same order.
        chunks: the number of model chunks on each pipeline stage.
        sharing: the number of data-parallel ranks that share parameters; 1 where the records tell.
        told: the sizes that the user gave, as text.
        count: how many replicas the step has.
        beside: the first rank of another replica; None where there is none.
    """

    members: tuple[tuple[Place, ...], ...] = ()
    coordinates: tuple[tuple[Coordinates, ...], ...] = ()
    chunks: int = 1
    sharing: int = 1
    told: str = ""
    count: int = 1
    beside: Place | None = None


def replicas(places: Sequence[Place], layout: Layout, side: str, lost: list[str] | None = None) -> list[Place]:
    """Return the whole replicas of every step; the places unchanged when each rank holds a whole model.

    ``side`` names the run in messages ("target", "golden run"). A line for each step of which ranks are missing is
    appended to ``lost``.

    Raises:
        NotComparableError: the ranks there are do not make a whole replica.
    """
    if not layout.spread:
        return list(places)
    lost = [] if lost is None else lost
    steps: dict[int | None, list[Place]] = {}
    for place in places:
        steps.setdefault(place.step, []).append(place)
    return [replica for ranks in steps.values() for replica in _replicas(ranks, layout, side, lost)]


def members_of(place: Place) -> tuple[Place, ...]:
    """Return the dumps that a place stands for: those of a replica, or itself."""
    return tuple(member for stage in place.members for member in stage) if isinstance(place, Replica) else (place,)


def _replicas(places: Sequence[Place], layout: Layout, side: str, lost: list[str]) -> Iterator[Replica]:
    ranks = sorted((place for place in places if place.kind == _RANK), key=lambda place: place.number or 0)
    numbers = [place.number or 0 for place in ranks]
    count = -(-max(len(ranks), numbers[-1] + 1) // layout.size) * layout.size if ranks else 0
    found: dict[int, dict[int, list[tuple[Place, Coordinates]]]] = {}
    for place in ranks:
        replica, at = layout.coordinates(place.number or 0, count)
        found.setdefault(replica, {}).setdefault(at.pp, []).append((place, at))
    problem = _missing_ranks(places, numbers, layout, count)
    if problem:
        step = "" if places[0].step is None else f" in step {places[0].step}"
        text = f"the {side} has {_listed(places)}{step}; {layout} {problem}"
        whole = {number: own for number, own in found.items() if sum(map(len, own.values())) == layout.size}
        if not whole or len(whole) == len(found) or _NO_RECORDS not in problem:
            raise NotComparableError(text)
        lost.append(f"{text}; the replicas that are whole are compared")
        found = whole
    firsts = {number: stages[min(stages)][0][0] for number, stages in found.items()}
    for number, stages in sorted(found.items()):
        rows = [stages[stage] for stage in sorted(stages)]
        first = rows[0][0][0]
        members = tuple(tuple(place for place, _ in row) for row in rows)
        coordinates = tuple(tuple(at for _, at in row) for row in rows)
        yield Replica(
            first.document,
            first.step,
            first.kind,
            number,
            members=members,
            coordinates=coordinates,
            chunks=layout.vpp,
            sharing=layout.zero,
            told=str(layout),
            count=len(found),
            beside=next((place for other, place in firsts.items() if other != number), None),
        )


def _missing_ranks(places: Sequence[Place], ranks: Sequence[int], layout: Layout, count: int) -> str:
    """Return why these ranks make no whole replicas, as the end of a sentence; "" where they do."""
    if len(ranks) != len(places):
        return "needs ranks, and one of these is a process without a number"
    if len(ranks) % layout.size and list(ranks) == list(range(len(ranks))):
        return f"is {layout.size} ranks, which does not divide {len(ranks)}"
    missing = sorted(set(range(count)) - set(ranks))
    if not missing:
        return "" if len(set(ranks)) == len(ranks) else "needs each rank once"
    named = ", ".join(map(str, missing[:_LISTED])) + (", ..." if len(missing) > _LISTED else "")
    return f"is {layout.size} ranks: {_NO_RECORDS} {named}"


def _listed(places: Sequence[Place]) -> str:
    names = [place.label or place.document.parent.name for place in places]
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
