"""How a training was spread over ranks: tensor-parallel and pipeline-parallel sizes, and which ranks made one model.

    tp=2,pp=2 with 8 ranks: replica 0 is ranks 0 1 | 4 5, replica 1 is ranks 2 3 | 6 7

Ranks count tensor parallelism first, then data parallelism, then pipeline stages, as Megatron does by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.compare.parent_cycle import without_cycles
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.reader import Dump, Place, load_dump

_RANK = "rank"
_SIZES = ("tp", "pp")


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of tensor and pipeline parallelism; the rest of the ranks are data-parallel replicas."""

    tp: int = 1
    pp: int = 1

    @property
    def spread(self) -> bool:
        """Whether several ranks hold one model."""
        return self.tp * self.pp > 1


def parse_layout(given: Any, what: str = "layout") -> Layout:
    """``"tp=2,pp=1"``, a dict of the sizes, a layout, or None for one rank per model.

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
    return Layout(**sizes)


@dataclass(frozen=True, slots=True)
class Replica(Place):
    """A model spread over ranks, in the place of its first rank; ``number`` counts replicas.

    ``members`` are its places by pipeline stage, then by tensor-parallel rank.
    """

    members: tuple[tuple[Place, ...], ...] = ()


def replicas(places: Sequence[Place], layout: Layout, side: str) -> list[Place]:
    """The ranks of every step by replica; the places as they are when one rank is one model.

    Raises:
        NotComparableError: the ranks there are do not make whole replicas.
    """
    if not layout.spread:
        return list(places)
    steps: dict[int | None, list[Place]] = {}
    for place in places:
        steps.setdefault(place.step, []).append(place)
    return [replica for ranks in steps.values() for replica in _replicas(ranks, layout, side)]


def _replicas(places: Sequence[Place], layout: Layout, side: str) -> Iterator[Replica]:
    ranks = sorted((place for place in places if place.kind == _RANK), key=lambda place: place.number or 0)
    size = layout.tp * layout.pp
    if len(ranks) != len(places) or [place.number for place in ranks] != list(range(len(ranks))) or len(ranks) % size:
        found = ", ".join(place.label or place.document.parent.name for place in places)
        raise NotComparableError(
            f"the {side} has {found}; tp={layout.tp}, pp={layout.pp} needs ranks 0 to N-1 with N a multiple of {size}"
        )
    count = len(ranks) // size
    for number in range(count):
        starts = [layout.tp * (number + count * stage) for stage in range(layout.pp)]
        members = tuple(tuple(ranks[start : start + layout.tp]) for start in starts)
        first = members[0][0]
        yield Replica(first.document, first.step, first.kind, number, members)


def load_pair(left: Place, right: Place) -> tuple[Dump, Dump, list[str]]:
    """The dumps of both places, merged where one is a replica, and what could not be decided, in words.

    Raises:
        ReadError: a document is damaged.
    """
    if not isinstance(left, Replica) and not isinstance(right, Replica):
        return without_cycles(load_dump(left), load_dump(right))
    from msprobe.compare.tensor_shards import merge_shards

    ours, theirs = _whole_stages(left), _whole_stages(right)
    target, golden = merge_shards(ours, theirs), merge_shards(theirs, ours)
    notes = [f"target: {note}" for note in target.notes] + [f"golden run: {note}" for note in golden.notes]
    merged = without_cycles(target.dump, golden.dump)
    return merged[0], merged[1], notes + merged[2]


def _whole_stages(place: Place) -> list[Dump]:
    """By tensor-parallel rank, with the stages of the pipeline joined."""
    if not isinstance(place, Replica):
        return [load_dump(place)]
    from msprobe.compare.pipeline_stages import merge_stages

    return [merge_stages([load_dump(one) for one in stages]) for stages in zip(*place.members, strict=True)]
