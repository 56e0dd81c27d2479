"""One sheet of the result: the rows of one kind of fact, each with its level and the reason why it matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msprobe.setup_check.levels import Level, worst

Row = dict[str, Any]
"""Cells by column. ``level`` and ``reason`` are cells too, in sheets that have such columns."""


@dataclass(frozen=True, slots=True)
class Section:
    """The comparison of one kind of fact.

    Attributes:
        name: as it stands in the summary.
        columns: titles in order.
        rows: differences; for tensors and random calls, also what agrees.
        note: why the section could not be compared; such a section is never a pass.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    note: str = ""

    @property
    def level(self) -> Level:
        """Return the most serious level of a row."""
        return worst(["warning" if self.note else "pass", *(row["level"] for row in self.rows)])

    @property
    def differences(self) -> list[Row]:
        """Return the rows that are no pass, the most serious ones first."""
        return sorted((row for row in self.rows if row["level"] != "pass"), key=lambda row: row["level"] != "error")


def one_sided(name: str, columns: tuple[str, ...], first: object, second: object) -> Section | None:
    """Return a section that says that one side lacks its facts; None when both, or neither, have them."""
    if bool(first) == bool(second):
        return None
    side = "second" if first else "first"
    return Section(name, columns, note=f"not compared: the {side} set-up has no {name}")
