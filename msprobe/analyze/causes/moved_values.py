"""How a value comes where a call gets it, through calls that only move values and are no entries."""

from __future__ import annotations

from typing import NamedTuple

from msprobe.analyze.compared_entries import OTHER_VALUE, UNRECORDED
from msprobe.compare.records.call_source import module_text
from msprobe.compare.records.source_lines import frame_of
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.store.reader import Dump
from msprobe.trace.moves import Move, Moves, Trail
from msprobe.trace.trace import Trace, Value


def describe_move(description: FirstDivergence, move: Move) -> None:
    """Say by which move a value comes there, where no entry makes it."""
    text = f"{OTHER_VALUE}it comes there by {move.name}, which moves values and is no entry"
    description.reason = description.reason.replace(UNRECORDED, text)


def set_place_of(description: FirstDivergence, move: Move) -> None:
    """Fill in where the target moves a value, unless a framework does that by itself."""
    if move.line is not None and not frame_of(move.line).passes_on:
        description.stack, description.source = [move.line], frame_of(move.line).text
        description.module = module_text(move.parent) if move.parent else None


class _Way(NamedTuple):
    """A value of a run, and how it comes there."""

    value: Value
    trail: Trail


def way_of(dump: Dump, name: str) -> _Way | None:
    """Return the value of this name and how it comes there; None where the dump has none."""
    trace = Trace(dump.data, dump.construct)
    value = trace.value(name)
    return None if value is None else _Way(value, Moves(dump, trace.calls).behind(value))
