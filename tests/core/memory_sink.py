"""A sink without files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msprobe.core.store.sink import Record


class MemorySink:
    """Implements ``Sink``: keeps the journal lines in memory."""

    def __init__(self) -> None:
        self.lines: list[Mapping[str, Any]] = []

    def write(self, record: Record) -> None:
        self.lines.extend(record.lines())

    def publish(self) -> None:
        """Nothing to do: the lines are already there."""

    def close(self) -> None:
        """Nothing to do: the lines stay."""

    def entries(self) -> dict[str, dict[str, Any]]:
        """The bodies by entry name, later lines of an entry merged into it."""
        found: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            if "d" in line:
                found[line["e"]] = {**found.pop(line["e"], {}), **line["d"]}
        return found
