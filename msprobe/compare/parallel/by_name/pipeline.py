"""The records of the stages of a pipeline as the records of one model.

Stages that number their layers from 0 each are numbered on, and so are calls of functions. A module that encloses the
layers is recorded by every stage: its inputs are those of the first stage, its outputs those of the last; in backward,
where data flows the other way, inputs are those of the last stage and outputs those of the first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msprobe.compare.records.entries import parent_of
from msprobe.core.naming import ApiName, ModuleName, NameSyntaxError, Phase, parse_entry
from msprobe.core.naming.names import EntryName
from msprobe.core.store.reader import Dump

LayerShifts = Mapping[str, int]
"""Path of a list of layers -> what is added to the numbers of its layers."""

_INPUT_KEYS = ("input_args", "input_kwargs", "input")


def merge_stages(stages: Sequence[Dump]) -> Dump:
    """Return one dump: the forward calls stage by stage, then all others from the last stage to the first."""
    if len(stages) == 1:
        return stages[0]
    new_names = _new_names(stages)
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    stacks: dict[str, list[str]] = {}
    for number, stage in enumerate(stages):
        for name in _split_at_backward(stage)[0]:
            _add_record(data, new_names[number].get(name, name), stage.data[name], later=True)
    for number, stage in reversed(list(enumerate(stages))):
        for name in _split_at_backward(stage)[1]:
            _add_record(data, new_names[number].get(name, name), stage.data[name], later=False)
    for number, stage in enumerate(stages):
        new = new_names[number]
        stacks.update({new.get(name, name): frames for name, frames in stage.stacks.items()})
        for name in stage.construct:
            parent = parent_of(stage.construct, name)
            construct.setdefault(new.get(name, name), new.get(parent, parent) if parent is not None else None)
    return replace(stages[0], data=data, construct=construct, stacks=stacks)


def micro_batches(stage: Dump) -> int:
    """Return how many micro batches a stage computed in a step: how often every module that no other one encloses was
    called; 1 where no modules are recorded."""
    calls: Counter[str] = Counter()
    for name, body in stage.data.items():
        entry = _parsed(name)
        if not isinstance(entry, ModuleName) or entry.phase is not Phase.FORWARD:
            continue
        repeated = type(body) is dict and body.get("is_recompute") is True
        if not repeated and parent_of(stage.construct, name) is None:
            calls[entry.stem] += 1
    return min(calls.values(), default=1)


def _split_at_backward(stage: Dump) -> tuple[list[str], list[str]]:
    """Return the names of the forward calls before any other call, and those of the rest."""
    head: list[str] = []
    rest: list[str] = []
    for name in stage.data:
        is_forward = getattr(_parsed(name), "phase", None) is Phase.FORWARD
        (head if is_forward and not rest else rest).append(name)
    return head, rest


def _add_record(data: dict[str, Any], name: str, body: Any, *, later: bool) -> None:
    """Add a record that other stages may have too; ``later``: its stage comes after those that were added."""
    present = data.get(name)
    if not isinstance(present, Mapping) or not isinstance(body, Mapping):
        data[name] = body
        return
    data[name] = join_stage_records(present, body) if later else join_stage_records(body, present)


def join_stage_records(first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a module that two stages recorded; ``first`` is the earlier stage of the pipeline."""
    backward = "input_args" not in first and "input" in first
    enter, leave = (last, first) if backward else (first, last)
    joined = {**first, **last}
    joined.update({key: enter[key] for key in _INPUT_KEYS if key in enter})
    if "output" in leave:
        joined["output"] = leave["output"]
    if isinstance(first.get("parameters"), Mapping) and isinstance(last.get("parameters"), Mapping):
        joined["parameters"] = {**first["parameters"], **last["parameters"]}
    return joined


def _new_names(stages: Sequence[Dump]) -> list[dict[str, str]]:
    """Return, by stage, the new name of each entry whose name changes."""
    parsed = [{name: _parsed(name) for name in _all_names(stage)} for stage in stages]
    shifts = _layer_shifts(parsed, [stage.data for stage in stages])
    call_counts: dict[str, int] = defaultdict(int)
    new_names: list[dict[str, str]] = []
    for number, names in enumerate(parsed):
        new_names.append({
            name: str(_renamed(entry, shifts[number], call_counts))
            for name, entry in names.items()
            if entry is not None
        })
        own: dict[str, int] = {}
        for entry in names.values():
            if isinstance(entry, ApiName):
                own[entry.stem] = max(own.get(entry.stem, 0), entry.call + 1)
        for stem, count in own.items():
            call_counts[stem] += count
    return new_names


def _renamed(entry: EntryName, shifts: LayerShifts, call_counts: Mapping[str, int]) -> EntryName:
    if isinstance(entry, ApiName):
        return entry.with_call(entry.call + call_counts.get(entry.stem, 0))
    return _shifted(entry, shifts)


def _shifted(entry: EntryName, shifts: LayerShifts) -> EntryName:
    position = _layer_position(entry)
    if position is None or not isinstance(entry, ModuleName) or not shifts.get(position[0]):
        return entry
    parts = entry.path.split(".")
    parts[position[1]] = str(int(parts[position[1]]) + shifts[position[0]])
    return replace(entry, path=".".join(parts))


def shift_layer(name: str, shifts: LayerShifts) -> str:
    """Return an entry name with the number of its layer shifted; other names stay as they are."""
    entry = _parsed(name)
    return name if entry is None else str(_shifted(entry, shifts))


def layer_shifts(stages: Sequence[Iterable[str]], records: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Return, by stage, what is added to the layer numbers of each list of layers.

    A list stays as it is where its stages number on by themselves, and where all its layers are on several stages with
    equal records: then it is not split.

    Args:
        stages: the names of all entries of each stage.
        records: the records of each stage, by name.
    """
    return _layer_shifts([{name: _parsed(name) for name in names} for names in stages], records)


def _layer_shifts(
    stages: Sequence[Mapping[str, EntryName | None]], records: Sequence[Mapping[str, Any]]
) -> list[dict[str, int]]:
    numbers: dict[str, dict[int, set[int]]] = {}
    differing: set[str] = set()
    for stage, names in enumerate(stages):
        for name, entry in names.items():
            position = _layer_position(entry)
            if position is None or not isinstance(entry, ModuleName):
                continue
            number = int(entry.path.split(".")[position[1]])
            numbers.setdefault(position[0], {}).setdefault(stage, set()).add(number)
            if stage and name in records[stage] and records[0].get(name) != records[stage][name]:
                differing.add(position[0])
    shifts: list[dict[str, int]] = [{} for _ in stages]
    for (path, stage), shift in numbers_on({path: numbers[path] for path in differing}).items():
        shifts[stage][path] = shift
    return shifts


def numbers_on(numbers: Mapping[str, Mapping[int, Collection[int]]]) -> dict[tuple[str, int], int]:
    """Return what is added to the numbers of the layers of a list on a stage, so that they go on from stage to stage;
    nothing for a list that is numbered so already.

    Args:
        numbers: by the path of a list and the stage, the numbers of the layers there.
    """
    shifts: dict[tuple[str, int], int] = {}
    for path, stages in numbers.items():
        if sum(map(len, stages.values())) == len(set().union(*stages.values())):
            continue
        start = 0
        for stage, own in sorted(stages.items()):
            shifts[path, stage] = start - min(own)
            start += max(own) - min(own) + 1
    return shifts


def _layer_position(entry: EntryName | None) -> tuple[str, int] | None:
    """Return the path of the outermost list of layers around a module, and the index of the number in its path."""
    if not isinstance(entry, ModuleName):
        return None
    parts = entry.path.split(".")
    index = next((index for index, part in enumerate(parts) if index and part.isdigit()), None)
    return None if index is None else (".".join(parts[:index]), index)


def _all_names(stage: Dump) -> set[str]:
    parents = {parent for name in stage.construct if (parent := parent_of(stage.construct, name)) is not None}
    return {*stage.data, *stage.construct, *stage.stacks, *parents}


def _parsed(name: str) -> EntryName | None:
    try:
        return parse_entry(name)
    except NameSyntaxError:
        return None
