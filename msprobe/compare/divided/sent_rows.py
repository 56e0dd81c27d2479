"""The rows that a copy of a process makes: their text, and what was seen of them, sent to the first process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msprobe.compare.divided.channel import Arrays, Channel
from msprobe.compare.mode import Mode
from msprobe.compare.rows import RowBlock
from msprobe.compare.table import LeafTable

Chunks = Iterator[tuple[int, bytes]]
"""Numbers of rows, and these rows as text."""
Writer = Callable[[Iterable[RowBlock], int], Chunks]
"""Blocks of rows, of which the first has this number in the whole table, to their text."""


class Watch(Protocol):
    """Looks at rows on their way into the table; ``serialize`` returns what was seen, in a form that can be sent."""

    def through(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]: ...
    def serialize(self) -> tuple[Any, Arrays]: ...


MakeWatch = Callable[[LeafTable, Mode, Sequence[str], int], Watch]
"""Makes one from a table, its mode, the titles of the result, and the number in the table of the first row to come."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is made of rows: their text, and what is seen of them."""

    write: Writer
    watch: MakeWatch


Take = Callable[[Any, Arrays], None]
"""Goes on with what a watch has told."""


def send_rows(channel: Channel, blocks: Iterable[RowBlock], first: int, write: Writer, watch: Watch) -> None:
    """Write the rows, of which the first has the number ``first`` in the whole table."""
    places: list[Any] = [(rows, channel.write(text), len(text)) for rows, text in write(watch.through(blocks), first)]
    head, arrays = watch.serialize()
    channel.send([places, head], arrays)


def received_rows(channels: Sequence[Channel], take: Take) -> Chunks:
    """The texts that other processes sent, one after the other, each after what its watch told.

    Raises:
        LostError: a process is gone.
    """
    for channel in channels:
        (places, head), arrays = channel.receive()
        take(head, arrays)
        for rows, at, size in places:
            yield rows, channel.read(at, size)
