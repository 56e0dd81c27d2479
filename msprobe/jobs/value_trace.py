"""``msprobe trace``: where a value of a dump comes from, and who uses it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from msprobe.compare.records.call_source import call_source
from msprobe.compare.records.source_lines import frame_of
from msprobe.core.config.problems import nearest
from msprobe.core.errors import InterfaceError
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump, only_dump
from msprobe.trace.moves import Moves, Trail
from msprobe.trace.trace import Call, Link, Trace, Value
from msprobe.trace.values import memory_of

_INFERRED = " (inferred from equal statistics)"
_BY_SHAPE = " (inferred from shapes and statistics)"


class TracedCall(BaseModel):
    """A call, and where the program makes it."""

    call: str
    module: str | None = Field(description="the module around it, or itself")
    source: str = Field(description="line of the program; empty where none was recorded")


class Given(BaseModel):
    """What a call gets."""

    value: str = Field(description="its name in the record of the call")
    comes_from: str | None = Field(description="the result that it is; of a source, the first record of it")
    is_source: bool = Field(description="whether no recorded call made it")
    link: str | None = Field(description="`recorded`: by the memory that both name; `inferred`: by equal statistics")
    parameter: str | None = Field(default=None, description="the parameter that it is")
    moved_by: list[str] = Field(
        default=[], description="calls that are no entry and bring it there, the last one first"
    )
    moved_from: list[str] = Field(default=[], description="the results that they move, as shapes and statistics tell")


class Definition(TracedCall):
    """A call that made the value, or what the value was made of."""

    given: list[Given]


class Use(TracedCall):
    """A call that gets the value."""

    value: str
    link: str | None


class History(BaseModel):
    """Where one value comes from, and who uses it."""

    value: str
    made_by: Given
    definitions: list[Definition] = Field(description="from the call that made it back to sources, latest first")
    passed_on_by: list[Use] = Field(description="calls that return it as they got it, and modules around its maker")
    used_by: list[Use]


class TraceDocument(BaseModel):
    """What `msprobe trace --json` writes."""

    dump: str
    memory: bool = Field(description="whether the dump says which memory tensors lie in")
    values: list[History]


def trace_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return TraceDocument.model_json_schema()


def trace_value(path: Path, name: str) -> TraceDocument:
    """Return the history of a value, or of all results of a call.

    Args:
        path: a dump.json, or a folder with one dump.
        name: an entry, or an entry with a place in its record (``Torch.add.0.forward.output.0``).

    Raises:
        MsprobeException: the dump cannot be read, or has no such value.
    """
    dump = only_dump(path)
    trace = Trace(dump.data, dump.construct)
    values, moves = _named(trace, path, name), Moves(dump, trace.calls)
    histories = [_history(dump, trace, moves, value) for value in values]
    return TraceDocument(dump=str(dump.place.document), memory=trace.is_recorded, values=histories)


def _named(trace: Trace, path: Path, name: str) -> Sequence[Value]:
    call = trace.by_name.get(name)
    if call is not None:
        if not call.returned and not call.given:
            raise InterfaceError(f"{path}: {name} has no tensors")
        return call.returned or call.given
    value = trace.value(name)
    if value is not None:
        return [value]
    entry = next((entry for entry in _without_ends(name) if entry in trace.by_name), None)
    if entry is not None:
        known = ", ".join(value.name.removeprefix(f"{entry}.") for value in trace.by_name[entry].values)
        raise InterfaceError(
            f"{path}: {entry} has no tensor {name.removeprefix(f'{entry}.')}; it has {known or 'none'}"
        )
    close = nearest(name, list(trace.by_name))
    hint = f"did you mean {close}?" if close else f"it has {len(trace.by_name)} entries"
    raise InterfaceError(f"{path}: no value or entry is named {name}; {hint}")


def _without_ends(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def _history(dump: Dump, trace: Trace, moves: Moves, value: Value) -> History:
    root = value.root
    users = [_use(dump, other) for other in root.users if other is not value]
    returned = {other.name for other in root.users if other in other.call.returned}
    return History(
        value=value.name,
        made_by=_given(trace, moves, value),
        definitions=[
            Definition(**_place(dump, call), given=[_given(trace, moves, one) for one in call.given])
            for call in _definitions(moves, root)
        ],
        passed_on_by=[use for use in users if use.value in returned],
        used_by=[use for use in users if use.value not in returned],
    )


def _definitions(moves: Moves, root: Value) -> Iterator[Call]:
    """Yield the calls by which a value came about, the latest first."""
    waiting: list[tuple[int, Call]] = []
    seen: set[int] = set()

    def follow(value: Value) -> None:
        for source in moves.behind(value).sources if value.is_source else (value.root,):
            call = source.call
            if call.number not in seen:
                seen.add(call.number)
                heapq.heappush(waiting, (-call.number, call))

    follow(root)
    while waiting:
        _, call = heapq.heappop(waiting)
        yield call
        for given in call.given:
            follow(given)


def _given(trace: Trace, moves: Moves, value: Value) -> Given:
    memory = memory_of(value.raw) if value.is_source else None
    link = value.link
    trail = moves.behind(value) if value.is_source else Trail((), ())
    places = (f"{move.name} ({frame_of(move.line).text if move.line else 'no line'})" for move in trail.moves)
    if trail.sources:
        link = Link.INFERRED if memory is None else Link.RECORDED
    return Given(
        moved_by=list(places) if trail.sources else [],
        moved_from=[source.name for source in trail.sources],
        value=value.name,
        comes_from=value.origin.name if value.origin is not None else None,
        is_source=value.is_source,
        link=link.value if link is not None else None,
        parameter=trace.parameters.get(memory.storage) if memory is not None else None,
    )


def _use(dump: Dump, value: Value) -> Use:
    return Use(**_place(dump, value.call), value=value.name, link=value.link.value if value.link is not None else None)


def _place(dump: Dump, call: Call) -> dict[str, Any]:
    source = call_source(dump, call.name)
    return {"call": call.name, "module": source.module, "source": source.source}


def trace_lines(document: TraceDocument, most: int) -> Iterator[str]:
    """Yield the lines that the command prints; of each list at most ``most`` calls, all where it is 0."""
    if not document.memory:
        yield "The dump does not say which memory tensors lie in: values are known again by their statistics alone."
    for history in document.values:
        yield f"{history.value} {_origin(history.made_by)}"
        yield from _listed("Made by", [_definition_lines(one) for one in history.definitions], most)
        if history.passed_on_by:
            yield from _listed("Passed on by", [_use_lines(one) for one in history.passed_on_by], most)
        yield from _listed("Used by", [_use_lines(one) for one in history.used_by], most)


def _listed(title: str, calls: Sequence[list[str]], most: int) -> Iterator[str]:
    count = len(calls)
    yield f"{title} {count} call{'' if count == 1 else 's'}:" if count else f"{title} no recorded call"
    shown = calls[:most] if most else calls
    for first, *others in shown:
        yield f"  {first}"
        yield from (f"    {line}" for line in others if line)
    if len(shown) < count:
        yield f"  and {count - len(shown)} more (--calls 0 shows all)"


def _definition_lines(call: Definition) -> list[str]:
    given = []
    for one in call.given:
        given.append(f"{one.value.removeprefix(call.call + '.')} {_origin(one)}")
        given += [f"  by {move}" for move in one.moved_by]
    return [_call_text(call), call.source, *given]


def _use_lines(use: Use) -> list[str]:
    place = use.value.removeprefix(use.call + ".")
    return [f"{_call_text(use)}: {place}{_INFERRED if use.link == Link.INFERRED.value else ''}", use.source]


def _call_text(call: TracedCall) -> str:
    return f"{call.call} in {call.module}" if call.module and not is_module_name(call.call) else call.call


def _origin(given: Given) -> str:
    end = _INFERRED if given.link == Link.INFERRED.value else ""
    if given.parameter is not None:
        return f"is the parameter {given.parameter}"
    if given.moved_from:
        return f"is moved there from {', '.join(given.moved_from)}{_BY_SHAPE if end else ''}"
    if given.is_source:
        return "comes from no recorded call" + (f", as {given.comes_from}{end}" if given.comes_from else "")
    return f"is {given.comes_from}{end}" if given.comes_from else "is made here"
