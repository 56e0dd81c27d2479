"""The records of the stages of a pipeline as the records of one model.

Stages that number their layers from 0 each are numbered on; calls of functions are numbered on too. A module that
encloses the layers is recorded by every stage: its inputs are those of the first stage, its outputs those of the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msprobe.compare.pairs import parent_of
from msprobe.core.naming import ApiName, ModuleName, NameSyntaxError, Phase, parse_entry
from msprobe.core.naming.model import EntryName
from msprobe.core.store.reader import Dump

_Names = dict[str, str]
_INPUTS = ("input_args", "input_kwargs", "input")


def merge_stages(stages: Sequence[Dump]) -> Dump:
    """One dump: the forward calls stage by stage, then the others from the last stage to the first."""
    if len(stages) == 1:
        return stages[0]
    names = _new_names(stages)
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    stacks: dict[str, list[str]] = {}
    for number, stage in enumerate(stages):
        for name in _part(stage, Phase.FORWARD, first=True):
            _add(data, names[number].get(name, name), stage.data[name], later=True)
    for number, stage in reversed(list(enumerate(stages))):
        for name in _part(stage, Phase.FORWARD, first=False):
            _add(data, names[number].get(name, name), stage.data[name], later=False)
    for number, stage in enumerate(stages):
        new = names[number]
        stacks.update({new.get(name, name): frames for name, frames in stage.stacks.items()})
        for name in stage.construct:
            parent = parent_of(stage.construct, name)
            construct.setdefault(new.get(name, name), new.get(parent, parent) if parent is not None else None)
    return replace(stages[0], data=data, construct=construct, stacks=stacks)


def _part(stage: Dump, phase: Phase, *, first: bool) -> list[str]:
    """The forward calls before any backward call, or everything else."""
    head: list[str] = []
    rest: list[str] = []
    for name in stage.data:
        is_forward = getattr(_parsed(name), "phase", None) is phase
        (head if is_forward and not rest else rest).append(name)
    return head if first else rest


def _add(data: dict[str, Any], name: str, body: Any, *, later: bool) -> None:
    """Put a record where several stages may have one; ``later`` says that this stage comes after the one there."""
    known = data.get(name)
    if not isinstance(known, Mapping) or not isinstance(body, Mapping):
        data[name] = body
        return
    first, last = (known, body) if later else (body, known)
    backward = "input_args" not in first and "input" in first
    given, made = (last, first) if backward else (first, last)
    merged = {**first, **last}
    merged.update({key: given[key] for key in _INPUTS if key in given})
    if "output" in made:
        merged["output"] = made["output"]
    if isinstance(first.get("parameters"), Mapping) and isinstance(last.get("parameters"), Mapping):
        merged["parameters"] = {**first["parameters"], **last["parameters"]}
    data[name] = merged


def _new_names(stages: Sequence[Dump]) -> list[_Names]:
    """By stage: old entry name to new one, where it changes."""
    parsed = [{name: _parsed(name) for name in _all_names(stage)} for stage in stages]
    shifts = _layer_shifts(parsed)
    calls: dict[str, int] = defaultdict(int)
    found: list[_Names] = []
    for number, names in enumerate(parsed):
        found.append({
            name: str(_renamed(entry, shifts[number], calls)) for name, entry in names.items() if entry is not None
        })
        own: dict[str, int] = {}
        for entry in names.values():
            if isinstance(entry, ApiName):
                own[entry.stem] = max(own.get(entry.stem, 0), entry.call + 1)
        for stem, count in own.items():
            calls[stem] += count
    return found


def _renamed(entry: EntryName, shifts: Mapping[str, int], calls: Mapping[str, int]) -> EntryName:
    if isinstance(entry, ApiName):
        return entry.with_call(entry.call + calls.get(entry.stem, 0))
    place = _layer(entry) if isinstance(entry, ModuleName) else None
    if place is None or not isinstance(entry, ModuleName):
        return entry
    parts = entry.path.split(".")
    parts[place[1]] = str(int(parts[place[1]]) + shifts.get(place[0], 0))
    return replace(entry, path=".".join(parts))


def _layer_shifts(parsed: Sequence[Mapping[str, EntryName | None]]) -> list[dict[str, int]]:
    """By stage: path of a list of layers to what is added to their numbers. Lists that count on by themselves stay."""
    numbers: dict[str, list[set[int]]] = {}
    for at, names in enumerate(parsed):
        for entry in names.values():
            place = _layer(entry) if isinstance(entry, ModuleName) else None
            if place is not None and isinstance(entry, ModuleName):
                sets = numbers.setdefault(place[0], [set() for _ in parsed])
                sets[at].add(int(entry.path.split(".")[place[1]]))
    shifts: list[dict[str, int]] = [{} for _ in parsed]
    for path, sets in numbers.items():
        if sum(map(len, sets)) == len(set().union(*sets)):
            continue
        start = 0
        for at, own in enumerate(sets):
            if own:
                shifts[at][path] = start - min(own)
                start += max(own) - min(own) + 1
    return shifts


def _layer(entry: ModuleName) -> tuple[str, int] | None:
    """The path of the outermost list of layers around a module, and where its number stands in the path."""
    parts = entry.path.split(".")
    at = next((at for at, part in enumerate(parts) if at and part.isdigit()), None)
    return None if at is None else (".".join(parts[:at]), at)


def _all_names(stage: Dump) -> set[str]:
    parents = {parent for name in stage.construct if (parent := parent_of(stage.construct, name)) is not None}
    return {*stage.data, *stage.construct, *stage.stacks, *parents}


def _parsed(name: str) -> EntryName | None:
    try:
        return parse_entry(name)
    except NameSyntaxError:
        return None
