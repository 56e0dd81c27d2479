"""Which value of the model a recorded module call holds, whatever rank, pipeline stage or micro batch recorded it.

A ``Key`` names a call by the path of its module in the whole model, the phase, the micro batch and the call within it.
Wrappers (data parallelism, compilation) leave no trace in a path; layers are numbered through all pipeline stages, and
experts through all ranks of expert parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

from msprobe.compare.after_backward.gradient_trails import Stage, last_backward
from msprobe.compare.parallel.by_name.pipeline import micro_batches, numbers_on
from msprobe.compare.parallel.layout import Coordinates
from msprobe.compare.parallel.pieces import Piece
from msprobe.compare.records.entries import parent_of
from msprobe.core.naming import ApiName, ModuleName, NameSyntaxError, Phase, parse_entry
from msprobe.core.store.reader import Dump

_WRAPPERS = frozenset({"_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module", "_forward_module"})
_LEADING = WHOLE_MODEL = "module"
_EXPERT = "expert"
_SHARDED_CLASS = "FSDP"
_COLLECTIVE = "Distributed"
_BACKWARD_FRAME = ", in backward,"
_FRAMES = 2


class Key(NamedTuple):
    """The identity of a call.

    ``path`` leads to the module in the whole model, ``turn`` counts its calls within a micro batch. ``function`` and
    ``number`` are those of a call of a function: what is called from where, and its number among the calls there;
    ``turn`` is then 1 after the backward passes.
    """

    path: str
    phase: Phase
    micro: int
    turn: int
    function: str = ""
    number: int = 0


class Part(IntEnum):
    """The part of a step in which a call is made."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call: its key, its name on its rank, its record, the name of the module call around it, the stage of
    the pipeline (chunks counted), and the part of the step."""

    key: Key
    name: str
    cls: str
    body: Mapping[str, Any]
    parent: str | None
    stage: int = 0
    part: Part = Part.FORWARD


@dataclass(slots=True)
class RankCalls:
    """The calls of modules on one rank in execution order.

    Attributes:
        place: the coordinates of the rank.
        dump: its records.
        calls: its calls.
        functions: its calls of functions outside of modules.
        micro: the number of micro batches.
        trails: by parameter (path of its module, own name), the way of its gradient to the optimizer.
        shards: of the first rank, the ways of all gradients, where a side has them in flat shards.
        before_clipping: of the first rank, all gradients as one piece before the last call on their way.
    """

    place: Coordinates
    dump: Dump
    calls: list[Call] = field(default_factory=list)
    functions: list[Call] = field(default_factory=list)
    micro: int = 1
    trails: dict[tuple[str, str], list[Stage]] = field(default_factory=dict)
    shards: list[Sequence[Stage]] = field(default_factory=list)
    before_clipping: Piece | None = None


def rank_calls(dumps: Sequence[Dump], places: Sequence[Coordinates], chunks: int) -> list[RankCalls]:
    """Return the calls of all ranks of a model, with the paths that their modules have in the whole model.

    Args:
        dumps: the records of the ranks.
        places: the coordinates of the ranks.
        chunks: how many chunks of the model each pipeline stage has.
    """
    parsed = [_parsed(dump) for dump in dumps]
    stages = max(place.pp for place in places) + 1
    paths = [
        {name: _in_model(entry.path, place, stages, chunks) for name, entry in names.items()}
        for names, place in zip(parsed, places, strict=True)
    ]
    layers = _layer_offsets([at for own in paths for at in own.values()])
    experts = _expert_offsets(paths, places)
    result = []
    for dump, place, names, own in zip(dumps, places, parsed, paths, strict=True):
        final = {name: _Located(_numbered(at, layers, experts.get(place.ep, {})), at.stage) for name, at in own.items()}
        positions = {name: position for position, name in enumerate(dump.data)}
        calls = _with_keys(dump, place, names, final)
        calls.functions = sorted(function_calls(calls), key=lambda call: positions[call.name])
        result.append(calls)
    return result


class _Located(NamedTuple):
    """The path of a module without wrappers, and the stage of the pipeline that has it, chunks counted."""

    path: str
    stage: int


def _parsed(dump: Dump) -> dict[str, ModuleName]:
    """Return the module calls of a dump by name, without those that are repeated for the backward pass."""
    names = {}
    for name, body in dump.data.items():
        try:
            entry = parse_entry(name)
        except NameSyntaxError:
            continue
        repeated = body.get("is_recompute") is True and ".forward" in name
        if isinstance(entry, ModuleName) and not repeated:
            names[name] = entry
    return names


def _in_model(path: str, place: Coordinates, stages: int, chunks: int) -> _Located:
    parts = [part for part in path.split(".") if part not in _WRAPPERS]
    chunk = 0
    if chunks > 1 and parts and parts[0].isdigit():
        chunk = int(parts.pop(0))
    while parts and parts[0] == _LEADING:
        parts.pop(0)
    return _Located(".".join(parts), chunk * stages + place.pp)


def _lists(path: str) -> Iterator[tuple[str, int]]:
    """Yield the path of each list of modules on the way to a module, and the number of its element."""
    parts = path.split(".")
    for index, part in enumerate(parts):
        if index and part.isdigit():
            yield ".".join(parts[:index]), int(part)


def _layer_offsets(located: Iterable[_Located]) -> dict[tuple[str, int], int]:
    """Return what is added to the numbers of a list of layers on a stage; nothing where all stages number on."""
    numbers: dict[str, dict[int, set[int]]] = {}
    for at in located:
        for path, number in list(_lists(at.path))[:1]:
            numbers.setdefault(path, {}).setdefault(at.stage, set()).add(number)
    return numbers_on(numbers)


def _expert_offsets(
    paths: Sequence[Mapping[str, _Located]], places: Sequence[Coordinates]
) -> dict[int, dict[str, int]]:
    """Return by rank of expert parallelism what is added to the numbers of each list of experts."""
    numbers: dict[str, dict[int, set[int]]] = {}
    located = ((at, place) for own, place in zip(paths, places, strict=True) for at in own.values())
    for at, place in located:
        for path, number in list(_lists(at.path))[1:]:
            if _EXPERT in path:
                numbers.setdefault(path, {}).setdefault(place.ep, set()).add(number)
    offsets: dict[int, dict[str, int]] = {}
    for path, ranks in numbers.items():
        if len(ranks) > 1 and len({frozenset(own) for own in ranks.values()}) == 1:
            for rank, own in ranks.items():
                offsets.setdefault(rank, {})[path] = rank * (max(own) + 1)
    return offsets


def _numbered(at: _Located, layers: Mapping[tuple[str, int], int], experts: Mapping[str, int]) -> str:
    """Return the path with the numbers that layers and experts have in the whole model."""
    parts = at.path.split(".")
    own = parts.copy()
    for place, (path, number) in enumerate(_lists(at.path)):
        offset = layers.get((path, at.stage), 0) if place == 0 else experts.get(path, 0)
        own[path.count(".") + 1] = str(number + offset)
    return ".".join(own)


def _with_keys(
    dump: Dump, place: Coordinates, names: Mapping[str, ModuleName], located: Mapping[str, _Located]
) -> RankCalls:
    """Return the calls of a rank; each module is called equally often in every micro batch."""
    numbers: dict[tuple[_Located, Phase], list[int]] = {}
    for name, entry in names.items():
        numbers.setdefault((located[name], entry.phase), []).append(entry.call or 0)
    micro = micro_batches(dump)
    result = RankCalls(place, dump, micro=micro)
    order = {group: {call: index for index, call in enumerate(sorted(calls))} for group, calls in numbers.items()}
    for name, entry in names.items():
        group = located[name], entry.phase
        index, turns = order[group][entry.call or 0], len(numbers[group]) // micro
        at = divmod(index, turns) if turns and not len(numbers[group]) % micro else (0, index)
        body = dump.data[name]
        cls = entry.cls.removeprefix(_SHARDED_CLASS) or entry.cls
        path, stage = located[name]
        part = Part.FORWARD if entry.phase is Phase.FORWARD else Part.BACKWARD
        if path:
            parent = parent_of(dump.construct, name)
            result.calls.append(Call(Key(path, entry.phase, *at), name, cls, body, parent, stage, part))
        elif part is Part.FORWARD:  # the model itself, which is recorded inside of a wrapper only
            made = {"output": body.get("output")}
            result.calls.append(Call(Key(WHOLE_MODEL, entry.phase, *at), name, cls, made, None, stage, part))
    return result


def function_calls(rank: RankCalls) -> list[Call]:
    """Return the calls of functions outside of modules on a rank.

    They belong together by the function of the program that makes them, and their order in it. After the backward
    passes such functions run for each parameter, and nothing tells which calls belong together where parameters lie on
    several ranks; so those that make several calls there are left out.
    """
    dump, stage = rank.dump, max((call.stage for call in rank.calls), default=0)
    last = last_backward(dump)
    found: dict[tuple[str, Part], list[tuple[str, ApiName]]] = {}
    for position, name in enumerate(dump.data):
        entry = _function(dump, name)
        if entry is None:
            continue
        frames = dump.stacks.get(name, [])
        inside_backward = any(_BACKWARD_FRAME in frame for frame in frames)
        part = Part.UPDATE if position > last else Part.BACKWARD if inside_backward else Part.FORWARD
        line = " < ".join(map(_line, frames[:_FRAMES]))
        found.setdefault((f"{entry.stem} {line}", part), []).append((name, entry))
    result: list[Call] = []
    backward = {name for name in dump.data if name.endswith(".backward")}
    for (function, part), own in found.items():
        if part is Part.UPDATE and len(own) > 1:
            continue
        turns = len(own) // rank.micro if not len(own) % rank.micro else 0
        for number, (name, entry) in enumerate(own):
            micro, index = divmod(number, turns) if turns and part is not Part.UPDATE else (0, number)
            key = Key("", Phase.FORWARD, micro, int(part is Part.UPDATE), function, index)
            result.append(Call(key, name, entry.stem, dump.data[name], None, stage, part))
            back = str(replace(entry, phase=Phase.BACKWARD))
            if back in backward:
                key = key._replace(phase=Phase.BACKWARD)
                result.append(Call(key, back, entry.stem, dump.data[back], None, stage, Part.BACKWARD))
    return result


def _function(dump: Dump, name: str) -> ApiName | None:
    """Return the parsed name of a forward call of a function outside of modules; None for others."""
    if not name.endswith(".forward") or not _is_outside(parent_of(dump.construct, name)):
        return None
    body = dump.data[name]
    if body.get("is_recompute") is True:
        return None
    try:
        entry = parse_entry(name)
    except NameSyntaxError:
        return None
    return entry if isinstance(entry, ApiName) and entry.prefix != _COLLECTIVE else None


def _is_outside(parent: str | None) -> bool:
    """Return whether calls in a module are outside of those that have an identity: the model itself is recorded inside
    of a wrapper only."""
    if parent is None:
        return True
    try:
        entry = parse_entry(parent)
    except NameSyntaxError:
        return False
    if not isinstance(entry, ModuleName):
        return False
    first, *rest = entry.path.split(".")
    inner = rest if rest and first.isdigit() else [first, *rest]  # the number of a chunk of the model
    return all(part == _LEADING or part in _WRAPPERS for part in inner)


def _line(frame: str) -> str:
    """Return the file and the function of a frame: lines move, and their text changes, from version to version."""
    file, _, where = frame.partition("\n")[0].partition(", line ")
    return f"{file.rpartition('/')[2]} {where.partition(' in ')[2].strip(' ,')}"
