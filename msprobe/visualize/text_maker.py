"""Texts of values made by a copy of this process while this one reads, pairs and judges.

What a golden node shows depends on nothing but its dump. The first one is read before the process is copied, further
ones once more by the copy. When the pairs are known it is given their numbers and verdicts, and turns them into text
ahead of the nodes that are written. Whatever it has not made, or when it is gone, is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.compare.divided.channel import Arrays, Channel, LostError
from msprobe.compare.divided.forked import Forked, can_fork
from msprobe.compare.items import leaves
from msprobe.compare.mode import Mode, mode_of
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.core.store.atomic import make_folder
from msprobe.core.store.reader import Dump, Place, load_dump, paused_gc
from msprobe.numerics.verdict import Ints
from msprobe.visualize.statistic_pairs import StatisticPairs
from msprobe.visualize.statistic_texts import (
    KEPT,
    ROWS_AT_ONCE,
    StatisticTexts,
    Texts,
    own_numbers,
)
from msprobe.visualize.value_text import ValueTexts, side_texts

_AT_ONCE = 512
_PLACES = ("at", "inputs", "outputs")


@contextmanager
def text_maker(places: Sequence[Place], folder: Path, *, wanted: bool) -> Iterator[TextMaker | None]:
    """A copy that makes the texts of these golden dumps, one after the other; None where none is wanted or possible.
    Its files lie in ``folder``.

    Raises:
        ReadError: the first of the dumps is damaged.
    """
    copy: Forked | None = None
    loaded: list[Dump] = []
    if wanted and can_fork():
        loaded.append(load_dump(places[0]))
        try:
            make_folder(folder)
            copy = Forked(partial(_serve, places, loaded), folder)
        except OSError:  # what cannot be written is told by who writes the database
            copy = None
    try:
        yield None if copy is None else TextMaker(copy.channel, loaded)
    finally:
        if copy is not None:
            copy.end()


class TextMaker:
    """This side of the copy. For each golden dump in turn: ``begin`` when its pairs are known, ask for texts, then
    ``done``. ``loaded`` holds the first of them."""

    def __init__(self, channel: Channel, loaded: list[Dump]) -> None:
        self._channel: Channel | None = channel
        self.loaded = loaded
        self._start()

    def _start(self) -> None:
        self._left = 1  # messages that are still to come about this dump
        self._golden: dict[str, tuple[int, int, int]] | None = None
        self._places: dict[int, tuple[int, int, list[int]]] = {}
        self._blocks: dict[int, dict[int, Texts]] = {}
        self._here: StatisticTexts | None = None

    def begin(self, pairs: StatisticPairs) -> None:
        """Have the texts of these pairs made."""
        self._here = StatisticTexts(pairs)
        if self._channel is not None and len(pairs.rows):
            self._left += len(_blocks(pairs.rows))
            self._send(True, pairs.arrays())

    def done(self) -> None:
        """Go on to the next golden dump."""
        while self._left and self._channel is not None:
            self._receive()
        self._send(False, {})
        self._start()

    def golden(self, name: str) -> tuple[str, str] | None:
        """Inputs and outputs of a golden entry, its values in the order of the record; None when they are not made."""
        while self._golden is None and self._channel is not None:
            self._receive()
        place = self._golden.get(name) if self._golden is not None else None
        if place is None:
            return None
        at, inputs, outputs = place
        text = self._read(at, inputs + outputs)
        return None if text is None else (text[:inputs].decode(), text[inputs:].decode())

    def of(self, row: int) -> Texts | None:
        """As ``StatisticTexts.of``, for the target."""
        number = row // ROWS_AT_ONCE
        block = self._blocks.get(number)
        if block is None:
            found = self._block(number)
            if found is None:
                return None if self._here is None else self._here.of(row)
            if len(self._blocks) >= KEPT:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = found
        return block.get(row)

    def _block(self, number: int) -> dict[int, Texts] | None:
        while number not in self._places and self._left and self._channel is not None:
            self._receive()
        place = self._places.get(number)
        text = None if place is None else self._read(place[0], place[1])
        if text is None or place is None:
            return None
        numbers, _, more = text.decode().partition("\t")
        return dict(zip(place[2], zip(numbers.split("\n"), more.split("\n"), strict=True), strict=True)) if text else {}

    def _receive(self) -> None:
        if self._channel is None:
            return
        try:
            head, arrays = self._channel.receive()
        except LostError:
            self._gone()
            return
        self._left -= 1
        if self._golden is None:
            places = zip(*(arrays[name].tolist() for name in _PLACES), strict=True) if head else ()
            self._golden = dict(zip(head or (), places, strict=True))
        else:
            number, at, size = head
            self._places[number] = at, size, arrays["rows"].tolist()

    def _read(self, at: int, size: int) -> bytes | None:
        try:
            return None if self._channel is None else self._channel.read(at, size)
        except LostError:
            self._gone()
            return None

    def _send(self, head: bool, arrays: Arrays) -> None:
        try:
            if self._channel is not None:
                self._channel.send(head, arrays)
        except (LostError, OSError):
            self._gone()

    def _gone(self) -> None:
        logger.warning("The process that makes texts is gone; they are made here.")
        self._channel = None


def _serve(places: Sequence[Place], loaded: list[Dump], channel: Channel) -> None:
    """What the copy does."""
    with paused_gc():
        for place in places:
            _make_golden(place, loaded, channel)
            head, arrays = channel.receive()
            if head:
                _make_pairs(StatisticPairs(**arrays), channel)
                channel.receive()
            channel.rewind()


def _make_golden(place: Place, loaded: list[Dump], channel: Channel) -> None:
    try:
        dump = loaded.pop() if loaded else load_dump(place)
        texts = ValueTexts(checksums=dump.task == "statistics" and mode_of(dump, dump) is Mode.CHECKSUM)
        records = iter(dump.data.items())
        made: list[tuple[int, int]] = []
        start = channel.write(b"")
        while some := list(islice(records, _AT_ONCE)):
            parts = _entries(some, texts)
            channel.write(b"".join(chain.from_iterable(parts)))
            made += [(len(inputs), len(outputs)) for inputs, outputs in parts]
    except MsprobeException:  # told by the process that compares
        channel.send(None)
        return
    sizes = np.array(made, np.int64).reshape(-1, 2)
    at = start + np.cumsum(sizes.sum(axis=1)) - sizes.sum(axis=1)
    channel.send(list(dump.data), dict(zip(_PLACES, (at, sizes[:, 0], sizes[:, 1]), strict=True)))


def _entries(records: Sequence[tuple[str, Any]], texts: ValueTexts) -> list[tuple[bytes, bytes]]:
    """Inputs and outputs of some entries."""
    found = [(name, leaves(name, body)) for name, body in records]
    numbers = iter(own_numbers([leaf for _, values in found for leaf in values]))
    made = [
        side_texts(name, [(leaf, texts.opened(leaf, next(numbers)), "") for leaf in values]) for name, values in found
    ]
    return [(one.encode("utf-8", "backslashreplace"), two.encode("utf-8", "backslashreplace")) for one, two in made]


def _make_pairs(pairs: StatisticPairs, channel: Channel) -> None:
    texts = StatisticTexts(pairs)
    for number in _blocks(pairs.rows):
        made = texts.block(number)
        text = "\t".join(map("\n".join, zip(*made.values(), strict=True))).encode("ascii")
        channel.send([number, channel.write(text), len(text)], {"rows": np.array(list(made), np.int64)})


def _blocks(rows: Ints) -> list[int]:
    found: list[int] = np.unique(rows // ROWS_AT_ONCE).tolist()
    return found
