"""A wrong value that no entry makes, because calls that only move values bring it there: the line of one of them."""

from __future__ import annotations

from typing import NamedTuple

from msprobe.analyze.compared_entries import OTHER_VALUE, UNRECORDED
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import module_text
from msprobe.compare.records.source_lines import frame_of
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.store.reader import Dump
from msprobe.trace.likeness import same_values
from msprobe.trace.moves import Move, Moves, Trail
from msprobe.trace.trace import Trace, Value


def name_move(comparison: Comparison, description: FirstDivergence) -> None:
    """Give a divergence whose value no entry makes the place where the target moves it there, if one is recorded."""
    move = _last_move(comparison, description) if UNRECORDED in description.reason else None
    if move is not None:
        describe_move(description, move)
        set_place_of(description, move)


def describe_move(description: FirstDivergence, move: Move) -> None:
    """Say by which move a value comes there, where no entry makes it."""
    text = f"{OTHER_VALUE}it comes there by {move.name}, which moves values and is no entry"
    description.reason = description.reason.replace(UNRECORDED, text)


def set_place_of(description: FirstDivergence, move: Move) -> None:
    """Fill in where the target moves a value, unless a framework does that by itself."""
    if move.line is not None and not frame_of(move.line).passes_on:
        description.stack, description.source = [move.line], frame_of(move.line).text
        description.module = module_text(move.parent) if move.parent else None


def _last_move(comparison: Comparison, description: FirstDivergence) -> Move | None:
    """Return the move of the target that brings the value there; None where none is known, or its line reads as that
    of the golden run: then the programs differ between that line and the call."""
    pairs = zip((comparison.target, comparison.golden), (description.target, description.golden), strict=True)
    ways = [way_of(dump, f"{name}.{description.slot}") for dump, name in pairs if dump.header.get("moves")]
    if len(ways) < 2 or (target := ways[0]) is None or (golden := ways[1]) is None:
        return None
    reordered = same_values(target.value.raw, golden.value.raw)
    move, right = (way.trail.decisive(reordered=reordered) for way in (target, golden))
    if not target.trail.sources or (move is not None and right is not None and _code(move) == _code(right)):
        return None
    return move


class _Way(NamedTuple):
    """A value of a run, and how it comes there."""

    value: Value
    trail: Trail


def way_of(dump: Dump, name: str) -> _Way | None:
    trace = Trace(dump.data, dump.construct)
    value = trace.value(name)
    return None if value is None else _Way(value, Moves(dump, trace.calls).behind(value))


def _code(move: Move) -> str:
    return frame_of(move.line).code if move.line is not None else ""
