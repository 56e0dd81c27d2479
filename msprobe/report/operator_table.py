"""Differing rows by operator: lines for a terminal, and a csv file beside the result tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msprobe.compare.rows.summary import OperatorGroup
from msprobe.core.store.safe_files import make_folder
from msprobe.report.csv_table import small_table
from msprobe.report.result_file import publish, unfinished

TITLES = (
    "Operator",
    "Phase",
    "Rows",
    "Calls",
    "Differ by themselves",
    "On one side only",
    "Worst times tolerance",
    "Worst row",
    "First row",
    "Step",
    "Rank",
)


def group_lines(groups: Sequence[OperatorGroup]) -> Iterator[str]:
    """Yield each group in words."""
    for group in groups:
        rows = (
            f"{group.rows} row{'' if group.rows == 1 else 's'} of {group.calls} call{'' if group.calls == 1 else 's'}"
        )
        own = f", {group.errors} differ{'s' if group.errors == 1 else ''} by " + (
            "itself" if group.errors == 1 else "themselves"
        )
        alone = f", {group.alone} on one side only" if group.alone else ""
        worst = "" if group.worst is None else f"; worst {group.worst:.3g} times the tolerance: {group.worst_row}"
        yield f"{group.name}: {rows}{own}{alone}; first {group.first}{worst}"


def write_groups(groups: Sequence[OperatorGroup], folder: Path, stem: str) -> Path:
    """Write the groups as a csv file and return its path.

    Raises:
        OSError: the file cannot be written.
    """
    make_folder(folder)
    with unfinished(folder, stem) as (temporary, descriptor):
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(small_table(TITLES, map(_cells, groups)))
        return publish(temporary, folder, stem, ".csv")


def _cells(one: OperatorGroup) -> tuple[object, ...]:
    numbers = (one.rows, one.calls, one.errors, one.alone, "N/A" if one.worst is None else f"{one.worst:.6g}")
    place = ("" if each is None else each for each in (one.step, one.rank))
    return (one.operator, one.phase, *numbers, one.worst_row, one.first, *place)
