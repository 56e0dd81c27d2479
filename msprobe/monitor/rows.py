"""The rows of a monitored step: one for each tensor of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msprobe.monitor.sources import Source
from msprobe.monitor.statistics import Measured, values_of


class Row(NamedTuple):
    """The statistics of one tensor in one step.

    Attributes:
        source: what kind of tensor it is.
        stage: the virtual pipeline stage: the position of its model in a list of chunks.
        name: the name of the module and value (``fc1.input``), or of the parameter.
        step: the step.
        micro_step: which one of the step it is; None where the source has one tensor a step.
        statistics: the names of the values.
        values: in the order of ``statistics``; None for one that the tensor does not have.
        position: of a value of a module: which of the inputs or outputs it is.
        alone: whether there is no other.
    """

    source: Source
    stage: int
    name: str
    step: int
    micro_step: int | None
    statistics: tuple[str, ...]
    values: tuple[Any, ...]
    position: int | None = None
    alone: bool = True

    @property
    def label(self) -> str:
        """Return the name with the position where there are several: ``fc1.input_1``."""
        return self.name if self.alone else f"{self.name}_{self.position}"

    def value(self, statistic: str) -> Any:
        """Return the value of a statistic; None where it is not in the row."""
        return self.values[self.statistics.index(statistic)] if statistic in self.statistics else None


class RowSink(Protocol):
    """Takes the rows of each step. What it was given is on the disk when ``write`` returns."""

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Write the rows of one step, in the order in which they were measured."""
        ...

    def close(self) -> None:
        """End what is open."""
        ...


class Place(NamedTuple):
    """Where a tensor belongs: stage, name and micro step, and for values of a module which of how many it is."""

    stage: int
    name: str
    micro_step: int | None = None
    position: int | None = None
    alone: bool = True


class StepRecords:
    """What was measured in the present step, in its order."""

    def __init__(self, statistics: Mapping[Source, tuple[str, ...]]) -> None:
        self._statistics = statistics
        self._measured: list[tuple[Source, Place, Measured | None, tuple[str, ...], frozenset[str]]] = []
        self._micro_steps: dict[tuple[str, int, str], int] = {}

    def __len__(self) -> int:
        return len(self._measured)

    def has(self, source: Source, stage: int, name: str) -> bool:
        """Return whether this was counted in the step."""
        return (source.name, stage, name) in self._micro_steps

    def count(self, source: Source, stage: int, name: str) -> int:
        """Return how often this was counted in the step before, from 0."""
        key = source.name, stage, name
        number = self._micro_steps.get(key, 0)
        self._micro_steps[key] = number + 1
        return number

    def add(
        self,
        source: Source,
        place: Place,
        measured: Measured | None,
        names: tuple[str, ...] | None = None,
        kept: frozenset[str] = frozenset(),
    ) -> int:
        """Add a tensor, and return its number in the step.

        Args:
            source, place: what it is.
            measured: its statistics; None for one that is not there.
            names: the names of the values, in place of those of the source.
            kept: which of them the tensor has; empty for all.
        """
        self._measured.append((source, place, measured, names or self._statistics[source], kept))
        return len(self._measured) - 1

    def complete(self, number: int, measured: Measured) -> None:
        """Give a tensor that was added before it was measured its statistics."""
        source, place, _, names, kept = self._measured[number]
        self._measured[number] = (source, place, measured, names, kept)

    def change_statistics(self, statistics: Mapping[Source, tuple[str, ...]]) -> None:
        """Give the tensors that are added from now on other statistics."""
        self._statistics = statistics

    def rows(self, step: int) -> Iterator[Row]:
        """Yield the rows of the step; everything that was measured is complete."""
        for source, place, measured, names, kept in self._measured:
            values = values_of(measured, names)
            if kept:
                values = tuple(value if name in kept else None for name, value in zip(names, values, strict=True))
            yield Row(
                source, place.stage, place.name, step, place.micro_step, names, values, place.position, place.alone
            )

    def clear(self) -> None:
        """Forget the step."""
        self._measured.clear()
        self._micro_steps.clear()
