"""Compares two folders of ``SingleSave`` for ``msprobe compare``: values of sequences token by token, others whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from msprobe.core.errors import NotComparableError, ReadError
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.saved_values.comparator import ValueTable, compare_values, write_table
from msprobe.saved_values.folder import SaveKey, Values, find_values, order_of
from msprobe.saved_values.token_table import COLUMNS, Row, line, place, summary, token_names, token_rows

TOKEN_TABLE = "token_comparison.csv"
VerdictText = Literal["same", "incomplete", "diverged"]


@dataclass(frozen=True, slots=True)
class SavedDifference:
    """The first value that differs: its place, the sequence and token where it was compared by tokens, and why."""

    step: int
    rank: int
    micro_step: int
    name: str
    id: str
    sequence: int | None
    token: int | None
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class SavedSummary:
    """What ``msprobe compare --json`` prints for two folders of ``SingleSave``.

    ``verdict`` is ``diverged`` where a value differs, else ``incomplete`` where one is missing or cannot be read;
    ``incomplete`` lists those. ``lines`` says for each name how much of it differs.
    """

    verdict: VerdictText
    target: str
    golden: str
    mask: str | None
    first_difference: SavedDifference | None
    lines: list[str]
    incomplete: list[str]
    results: list[str]

    def text(self) -> Iterator[str]:
        """Yield the lines for a terminal."""
        yield from self.lines
        if self.first_difference is not None:
            yield f"First: {self.first_difference.text}"
        for missing in self.incomplete[:_LISTED]:
            yield f"Not compared: {missing}"
        if len(self.incomplete) > _LISTED:
            yield f"Not compared: {len(self.incomplete) - _LISTED} more, see the tables"
        for table in self.results:
            yield f"Table: {table}"
        yield f"Verdict: {self.verdict.upper()}"

    def json(self) -> str:
        """Return the JSON document."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)


_LISTED = 8
_Found = tuple[tuple[Any, ...], SavedDifference]


def saved_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    return TypeAdapter(SavedSummary).json_schema(mode="serialization")


def compare_saved(
    target: Path, golden: Path, output: Path, mask: str | None = None, computed_in: str = ""
) -> SavedSummary:
    """Compare two folders and write their tables below ``output``.

    Args:
        target, golden: the ``dump_path`` of two ``SingleSave`` objects; the target is the rollout.
        output: where the tables go.
        mask: the name of a saved mask; values of its shape are compared token by token.
        computed_in: a type in which values were computed, where it is coarser than the one they are saved with.

    Raises:
        FileCheckException: a folder holds nothing that SingleSave wrote.
        ReadError: the mask is unknown or fits no value, or the type is unknown.
        NotComparableError: the folders have no value in common.
        OSError: a table cannot be written.
    """
    if computed_in and not unit_roundoff(computed_in):
        raise ReadError(f"--computed-in {computed_in}: give a floating-point type, such as bfloat16")
    sides = find_values(target), find_values(golden)
    _check_common(sides, target, golden)
    names = token_names(sides, mask) if mask is not None else []
    tables = compare_values(sides, (sides[0].keys() | sides[1].keys()) - {mask, *names}, output)
    rows = list(token_rows(sides, names, mask, computed_in)) if mask is not None else []
    results = [str(table.path) for table in tables]
    if rows:
        path = output / TOKEN_TABLE
        write_table(path, COLUMNS, [line(row) for row in rows], [row[2].level for row in rows])
        results.append(str(path))
    found = [*_of_tokens(rows), *(each for table in tables for each in _of_values(table))]
    missing = [f"{place(row)}: {row[2].note}" for row in rows if row[2].level == "missing"]
    missing += [f"{_words(table.name, row[:4])}: {row[-2]}" for table in tables for row in table.missing]
    return SavedSummary(
        verdict="diverged" if found else "incomplete" if missing else "same",
        target=str(target),
        golden=str(golden),
        mask=mask,
        first_difference=min(found, key=lambda each: each[0])[1] if found else None,
        lines=[
            *(summary(name, [row for row in rows if row[0] == name]) for name in names),
            *(f"{table.name}: {len(table.rows)} values, {len(table.differing)} differ" for table in tables),
        ],
        incomplete=missing,
        results=results,
    )


def _check_common(sides: tuple[Values, Values], target: Path, golden: Path) -> None:
    pairs = [{(name, key) for name, values in side.items() for key in values} for side in sides]
    if not pairs[0] & pairs[1]:
        held = ["; ".join(sorted({f"{name} in step {key[0]}" for name, key in side})[:3]) for side in pairs]
        raise NotComparableError(
            f"{target} and {golden} hold no value of the same name, step, rank and micro step: "
            f"{held[0]} against {held[1]}"
        )


def _of_tokens(rows: list[Row]) -> Iterator[_Found]:
    for row in rows:
        name, key, gap = row
        if gap.level == "error":
            sequence = gap.sequence if isinstance(gap.sequence, int) else None
            text = f"{place(row)} ({gap.note})"
            ids = gap.mean_gap is None  # another token explains another log-probability
            order = (*_place_order(key), not ids, name, sequence is None, sequence or 0)
            yield (
                order,
                SavedDifference(key[0], key[1], key[2], name, key[3], sequence, gap.first_token, gap.note, text),
            )


def _of_values(table: ValueTable) -> Iterator[_Found]:
    for row in table.differing:
        step, rank, micro, key = row[:4]
        text = f"{_words(table.name, row[:4])} ({row[-2]})"
        order = (*_place_order((step, rank, micro, key)), True, table.name, True, 0)
        yield order, SavedDifference(step, rank, micro, table.name, key, None, None, str(row[-2]), text)


def _place_order(key: SaveKey) -> tuple[int, int, int]:
    step, micro, rank = order_of(key)[:3]
    return step, micro, rank


def _words(name: str, key: tuple[Any, ...]) -> str:
    step, rank, micro, own = key
    return f"step {step} rank {rank} micro step {micro} {name}{'' if own == '0' else f'.{own}'}"
