"""An alert, and what may raise one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from msprobe.monitor.rows import Row


@dataclass(frozen=True, slots=True)
class Alert:
    """One value that deserves attention.

    Attributes:
        rule: which rule says so.
        row: the tensor.
        statistic: which of its values.
        value: that value.
        usual: what was usual before; None where the value is wrong by itself.
        reason: a sentence.
    """

    rule: str
    row: Row
    statistic: str
    value: Any
    usual: float | None
    reason: str


@runtime_checkable
class AlertSink(Protocol):
    """A sink that keeps the alerts beside the rows."""

    def mark(self, alerts: Sequence[Alert]) -> None:
        """Keep the alerts of the step whose rows were written last.

        Raises:
            OSError: they cannot be written.
        """
        ...


class AlertPolicy(Protocol):
    """Finds the values of a step that deserve an alert; it remembers what was usual."""

    def observe(self, step: int, rows: Sequence[Row]) -> Iterator[Alert]:
        """Yield the alerts of a step; steps come in their order."""
        ...


def place_of(row: Row) -> str:
    """Return the tensor of a row in words."""
    micro = "" if row.micro_step is None else f", micro step {row.micro_step}"
    stage = f", stage {row.stage}" if row.stage else ""
    return f"{row.source.name} of {row.label}{stage}{micro}"
