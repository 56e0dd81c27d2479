"""The verdict of each row of a comparison, and its messages when they are asked for.

A run may have hundreds of thousands of rows, of which few have messages that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.rows.explanations import Reasons
from msprobe.compare.rows.levels import LEVEL_NAMES
from msprobe.visualize.values.value_json import quoted

_WITHOUT_MESSAGE = tuple(f'"Result":"{level}","Err_message":"[]"' for level in LEVEL_NAMES)


@dataclass(frozen=True, slots=True)
class RowVerdicts:
    """The verdicts of all rows: ``levels`` are numbers of ``Level``, ``messages`` returns those of a row."""

    levels: list[int]
    messages: Callable[[int], Sequence[str]]


def row_verdicts(comparison: Comparison) -> RowVerdicts:
    """Return the verdict of each row under the policy of the comparison."""
    if comparison.policy is Policy.REFERENCE:
        return _published_verdicts(comparison)
    table, judged = comparison.table, comparison.judged
    levels: list[int] = comparison.row_levels.levels.tolist()
    overrides = comparison.row_levels.overrides.values()
    override_messages = {row: override.message for override in overrides for row in override.rows}
    kinds: list[int] = judged.kind.tolist()
    reasons, tensors = Reasons(comparison.measured, judged), comparison.tensors

    def messages(row: int) -> Sequence[str]:
        together = table.together.get(row)
        notes = (f"{LEVEL_NAMES[levels[row]]}: {together.name} taken together",) if together is not None else ()
        if override_messages.get(row):
            return (override_messages[row],)
        if not levels[row]:
            return notes
        tensor = tensors[row] if tensors is not None else None
        text = tensor.problem if tensor is not None else ""
        text = text or reasons.text(kinds[row], row, table.target[row], table.golden[row])
        return (f"{LEVEL_NAMES[levels[row]]}: {text}", *notes)

    return RowVerdicts(levels, messages)


def _published_verdicts(comparison: Comparison) -> RowVerdicts:
    levels: list[int] = []
    messages: dict[int, Sequence[str]] = {}
    for block in comparison.blocks():
        messages.update((row, texts) for row, texts in enumerate(block.messages, len(levels)) if texts)
        levels += block.levels.tolist()
    return RowVerdicts(levels, lambda row: messages.get(row, ()))


def difference_lines(comparison: Comparison, rows: RowVerdicts) -> Iterator[str]:
    """Return a line per value that does not pass: its name and the reason."""
    table = comparison.table
    for number, pair in enumerate(table.entries):
        for row in range(int(table.starts[number]), int(table.starts[number + 1])):
            leaf = table.target[row] or table.golden[row]
            for message in rows.messages(row) if rows.levels[row] else ():
                yield f"{pair.sided}{leaf.suffix if leaf is not None else ''}: {message}"


def verdict_text(level: int, messages: Sequence[str]) -> str:
    """Return the JSON fields of a verdict, without braces."""
    if not messages:
        return _WITHOUT_MESSAGE[level]
    texts = ", ".join(map(quoted, messages))
    if len(messages) == 1 and len(texts) == len(messages[0]) + 2:  # nothing to escape but the quotes, as nearly always
        return f'"Result":"{LEVEL_NAMES[level]}","Err_message":"[\\"{messages[0]}\\"]"'
    return f'"Result":"{LEVEL_NAMES[level]}","Err_message":{quoted(f"[{texts}]")}'
