"""A wrong value that no entry makes, because calls that only move values bring it there: the line of one of them."""

from __future__ import annotations

from msprobe.analyze.compared_entries import OTHER_VALUE, UNRECORDED
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import module_text
from msprobe.compare.records.source_lines import frame_of
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.trace.likeness import same_values
from msprobe.trace.moves import Move, Moves
from msprobe.trace.trace import Trace


def name_move(comparison: Comparison, description: FirstDivergence) -> None:
    """Give a divergence whose value no entry makes the place where the target moves it there, if one is recorded."""
    move = _last_move(comparison, description) if UNRECORDED in description.reason else None
    if move is not None:
        text = f"{OTHER_VALUE}it comes there by {move.name}, which moves values and is no entry"
        description.reason = description.reason.replace(UNRECORDED, text)
        set_place_of(description, move)


def set_place_of(description: FirstDivergence, move: Move) -> None:
    """Fill in where the target moves a value."""
    if move.line is not None:
        description.stack, description.source = [move.line], frame_of(move.line).text
        description.module = module_text(move.parent) if move.parent else None


def _last_move(comparison: Comparison, description: FirstDivergence) -> Move | None:
    target = comparison.target
    if not target.header.get("moves") or description.target is None or description.slot is None:
        return None
    trace = Trace(target.data, target.construct)
    value = trace.value(f"{description.target}.{description.slot}")
    if value is None or not (trail := Moves(target, trace.calls).behind(value)).sources:
        return None
    other = Trace(comparison.golden.data, comparison.golden.construct).value(f"{description.golden}.{description.slot}")
    return trail.decisive(reordered=other is not None and same_values(value.raw, other.raw))
