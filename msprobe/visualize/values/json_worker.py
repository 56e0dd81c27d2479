"""A copy of this process that makes the JSON of values while this process reads, pairs and judges.

The JSON of a golden node depends only on its dump. The first golden dump is read before the process is copied; the copy
reads further dumps a second time. When the pairs are known, the copy gets their numbers and verdicts and makes their
JSON before the nodes are written. This process makes the texts that the copy did not make, for example because the copy
was killed.

``text_worker`` starts the copy; ``TextWorker`` is the end of the channel in this process, ``_serve`` the work of the
copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.compare.inputs.mode import Mode, mode_of
from msprobe.compare.workers.fork_channel import Arrays, Channel, LostError, UndividedError, worker_pool
from msprobe.core.errors import MsprobeException
from msprobe.core.host import can_fork, paused_gc
from msprobe.core.log import logger
from msprobe.core.store.reader import Dump, Place, load_dump
from msprobe.core.store.record_walk import leaves
from msprobe.core.store.safe_files import make_folder
from msprobe.numerics.verdict import Ints
from msprobe.visualize.values.comparison_json import (
    MAX_BLOCKS,
    ROWS_PER_BLOCK,
    StatisticPairs,
    StatisticTexts,
    Texts,
    own_numbers,
    received_pairs,
)
from msprobe.visualize.values.value_json import ValueTexts, sides_json

_ENTRIES_AT_ONCE = 512
_POSITION_ARRAYS = ("offset", "inputs", "outputs")


@contextmanager
def text_worker(places: Sequence[Place], folder: Path, *, wanted: bool) -> Iterator[TextWorker | None]:
    """Start a copy of this process that makes the JSON of these golden dumps, one after the other.

    Args:
        places: the golden dumps, in the order in which they are drawn.
        folder: where the files of the copy lie.
        wanted: whether a copy is worth its start.

    Yields None where no copy is wanted or possible.

    Raises:
        ReadError: the first of the dumps is damaged.
    """
    if not wanted or not can_fork():
        yield None
        return
    loaded = [load_dump(places[0])]
    with ExitStack() as stack:
        try:
            make_folder(folder)
            (channel,) = stack.enter_context(worker_pool([partial(_serve, places, loaded)], folder))
        except (OSError, UndividedError):  # a folder that cannot be written is reported by the writer of the database
            channel = None
        yield None if channel is None else TextWorker(channel, loaded)


class TextWorker:
    """The end of the channel to the copy in this process.

    For each golden dump in turn: ``begin`` when its pairs are known, ask for texts, then ``end_dump``. ``loaded`` holds
    the first of the dumps.
    """

    def __init__(self, channel: Channel, loaded: list[Dump]) -> None:
        self._channel: Channel | None = channel
        self.loaded = loaded
        self._reset()

    def _reset(self) -> None:
        self._messages_left = 1  # that are still to come about this dump
        self._golden: dict[str, tuple[int, int, int]] | None = None
        self._block_positions: dict[int, tuple[int, int, list[int]]] = {}
        self._blocks: dict[int, dict[int, Texts]] = {}
        self._local: StatisticTexts | None = None

    def begin(self, pairs: StatisticPairs) -> None:
        """Send these pairs to the copy, which makes their texts."""
        self._local = StatisticTexts(pairs)
        if self._channel is not None and len(pairs.rows):
            self._messages_left += len(_block_numbers(pairs.rows))
            self._send(True, pairs.arrays())

    def end_dump(self) -> None:
        """Go on to the next golden dump."""
        while self._messages_left and self._channel is not None:
            self._receive()
        self._send(False, {})
        self._reset()

    def golden_json(self, name: str) -> tuple[str, str] | None:
        """Return the inputs and the outputs of a golden entry, its values in the order of the record.

        None when they were not made.
        """
        while self._golden is None and self._channel is not None:
            self._receive()
        position = self._golden.get(name) if self._golden is not None else None
        if position is None:
            return None
        offset, inputs, outputs = position
        text = self._read(offset, inputs + outputs)
        return None if text is None else (text[:inputs].decode(), text[inputs:].decode())

    def of_row(self, row: int) -> Texts | None:
        """Return the texts of a row of the target, as ``StatisticTexts.of_row``."""
        number = row // ROWS_PER_BLOCK
        block = self._blocks.get(number)
        if block is None:
            received = self._received_block(number)
            if received is None:
                return None if self._local is None else self._local.of_row(row)
            if len(self._blocks) >= MAX_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = received
        return block.get(row)

    def _received_block(self, number: int) -> dict[int, Texts] | None:
        while number not in self._block_positions and self._messages_left and self._channel is not None:
            self._receive()
        position = self._block_positions.get(number)
        text = None if position is None else self._read(position[0], position[1])
        if text is None or position is None:
            return None
        numbers, _, more = text.decode().partition("\t")
        rows = position[2]
        return dict(zip(rows, zip(numbers.split("\n"), more.split("\n"), strict=True), strict=True)) if text else {}

    def _receive(self) -> None:
        if self._channel is None:
            return
        try:
            head, arrays = self._channel.receive()
        except LostError:
            self._lose_copy()
            return
        self._messages_left -= 1
        if self._golden is None:
            positions = zip(*(arrays[name].tolist() for name in _POSITION_ARRAYS), strict=True) if head else ()
            self._golden = dict(zip(head or (), positions, strict=True))
        else:
            number, offset, size = head
            self._block_positions[number] = offset, size, arrays["rows"].tolist()

    def _read(self, offset: int, size: int) -> bytes | None:
        try:
            return None if self._channel is None else self._channel.read(offset, size)
        except LostError:
            self._lose_copy()
            return None

    def _send(self, head: bool, arrays: Arrays) -> None:
        try:
            if self._channel is not None:
                self._channel.send(head, arrays)
        except (LostError, OSError):
            self._lose_copy()

    def _lose_copy(self) -> None:
        logger.warning("The process that makes texts is gone; they are made here.")
        self._channel = None


def _serve(places: Sequence[Place], loaded: list[Dump], channel: Channel) -> None:
    """Run in the copy: make the JSON of each golden dump, then of its pairs."""
    with paused_gc():
        for place in places:
            _make_golden(place, loaded, channel)
            head, arrays = channel.receive()
            if head:
                _make_pairs(received_pairs(arrays), channel)
                channel.receive()
            channel.rewind()


def _make_golden(place: Place, loaded: list[Dump], channel: Channel) -> None:
    """Make the JSON of all entries of a golden dump, and send where each lies in the file of the channel."""
    try:
        dump = loaded.pop() if loaded else load_dump(place)
        texts = ValueTexts(checksums=dump.task == "statistics" and mode_of(dump, dump) is Mode.CHECKSUM)
        records = iter(dump.data.items())
        lengths: list[tuple[int, int]] = []
        start = channel.write(b"")
        while batch := list(islice(records, _ENTRIES_AT_ONCE)):
            parts = _encoded_entries(batch, texts)
            channel.write(b"".join(chain.from_iterable(parts)))
            lengths += [(len(inputs), len(outputs)) for inputs, outputs in parts]
    except MsprobeException:  # reported by the process that compares
        channel.send(None)
        return
    sizes = np.array(lengths, np.int64).reshape(-1, 2)
    offsets = start + np.cumsum(sizes.sum(axis=1)) - sizes.sum(axis=1)
    channel.send(list(dump.data), dict(zip(_POSITION_ARRAYS, (offsets, sizes[:, 0], sizes[:, 1]), strict=True)))


def _encoded_entries(records: Sequence[tuple[str, Any]], texts: ValueTexts) -> list[tuple[bytes, bytes]]:
    """Return the JSON of inputs and outputs of some entries."""
    entries = [(name, leaves(name, body)) for name, body in records]
    numbers = iter(own_numbers([leaf for _, values in entries for leaf in values]))
    sides = [
        sides_json(name, [(leaf, texts.open_object(leaf, next(numbers)), "") for leaf in values])
        for name, values in entries
    ]
    return [
        (inputs.encode("utf-8", "backslashreplace"), outputs.encode("utf-8", "backslashreplace"))
        for inputs, outputs in sides
    ]


def _make_pairs(pairs: StatisticPairs, channel: Channel) -> None:
    """Make the texts of the rows of the target, and send where each block lies in the file of the channel."""
    texts = StatisticTexts(pairs)
    for number in _block_numbers(pairs.rows):
        block = texts.block(number)
        text = "\t".join(map("\n".join, zip(*block.values(), strict=True))).encode("ascii")
        channel.send([number, channel.write(text), len(text)], {"rows": np.array(list(block), np.int64)})


def _block_numbers(rows: Ints) -> list[int]:
    """Return the numbers of the blocks that hold these rows."""
    numbers: list[int] = np.unique(rows // ROWS_PER_BLOCK).tolist()
    return numbers
