"""Keep the records of a step in memory, as the lines of its journal, until somebody wants them on the disk.

``write_out`` makes an ordinary dump of them at any moment: of a step that is still being recorded, which then goes on
as any other, or of one that has ended. Until then there is no file and no folder.

Lines are kept rather than records: they are what would be written, so their size is known, they take a fraction of the
memory of the objects, and the garbage collector of the program has nothing to walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.layout import JOURNAL
from msprobe.core.store.safe_files import mode_of
from msprobe.core.store.sink import DirectorySink, Record

_MOST_WAITING = 4096
"""Records that wait for statistics on their way from a device; then the program waits for these."""
_BYTES_OF_INDEX = 300
"""What the index of a journal takes for each record, names included, as measured with tracemalloc."""


class Keeper(Protocol):
    """Owns the memory of the steps that are kept."""

    def watch(self, name: str, body: Any) -> None:
        """See the record of one call, with all its statistics."""
        ...

    def watch_odd(self, name: str, body: Any) -> None:
        """See the record of one call in which something is not finite."""
        ...

    def make_room(self, size: int) -> bool:
        """Free memory for a step of ``size`` bytes; return False when it is too large to be kept."""
        ...


class HeldSink(DirectorySink):
    """Hold one step of one process in memory.

    Args:
        keeper: owns the memory.
        claim: returns the folder to write into, made and locked for this process; it is called by ``write_out``.
        folder: the folder that this will be, as far as that is known now.
        header: the fields of dump.json beside ``data``.
        options: further arguments of ``DirectorySink``; there are no tensor files.

    Attributes:
        in_memory: whether nothing is on the disk.
        ended: whether the step is over.
    """

    def __init__(
        self,
        keeper: Keeper,
        claim: Callable[[], Path],
        folder: Path,
        header: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.in_memory = True
        self.ended = False
        self._keeper = keeper
        self._claim = claim
        self._seen: tuple[str, Any] | None = None
        super().__init__(folder, header, tensors=False, **options)
        self._watch = self._see

    def _begin(self) -> None:
        """Make no files."""

    @property
    def size(self) -> int:
        """The bytes that the step takes in memory, about."""
        index = self._journal.index
        return index.size + _BYTES_OF_INDEX * len(index.starts) if self.in_memory else 0

    def write(self, record: Record) -> None:
        """Take a record; it becomes lines with its batch, or when its statistics have arrived."""
        super().write(record)
        if self.in_memory and len(self._waiting) >= _MOST_WAITING:
            self._encode_waiting()

    def tick(self) -> None:
        """Turn what was added since the last tick into lines, where its statistics have arrived."""
        if not self.in_memory:
            super().tick()
        elif self._pending is None or not self._pending.outstanding:
            self._encode_waiting()

    def publish(self) -> None:
        """Write the documents, or settle a step that is in memory: its statistics have arrived then."""
        if self.in_memory:
            self._encode_waiting()
        else:
            super().publish()

    def close(self) -> None:
        """End the step; one in memory stays there."""
        self.ended = True
        if self.in_memory:
            FLUSHER.remove(self)
            self._encode_waiting()
        else:
            super().close()

    def move(self, folder: Path) -> bool:
        """Write into ``folder`` later on, or rename what is on the disk."""
        if not self.in_memory:
            return super().move(folder)
        self.folder = folder
        return True

    def discard(self) -> None:
        """Forget the step, and remove its files if there are some."""
        if self.in_memory:
            self.forget()
        else:
            super().discard()

    def forget(self) -> None:
        """Free the memory of the step and take nothing more."""
        FLUSHER.remove(self)
        self.failed = True
        self._waiting.clear()
        self._journal.forget()

    def write_out(self, fields: Mapping[str, Any]) -> bool:
        """Write the step into its folder, with ``fields`` in the header; return whether it is there.

        A full disk is logged as for any step. Where the budget of the disk is reached nothing is written.
        """
        self._encode_waiting()
        if not self.in_memory or self.failed or (self.account is not None and self.account.reached):
            return False
        self.add_header(fields)
        with self._writing:
            self.folder = self._claim()
            self.in_memory = False
            self._create_files()
        written = self.folder.joinpath(JOURNAL)
        if self.ended:
            super().close()
            written = self.document
        return bool(mode_of(written))

    def _see(self, name: str, body: Any) -> None:
        self._keeper.watch(name, body)
        if self._dropped:  # the line has not all statistics
            self._keeper.watch_odd(name, body)
        else:
            self._seen = name, body

    def _add(self, line: dict[str, Any]) -> None:
        super()._add(line)
        if self._seen is not None:
            seen, self._seen = self._seen, None
            text = self._journal.last  # a search in it costs a hundredth of a walk through the record
            if b"NaN" in text or b"Infinity" in text:
                self._keeper.watch_odd(*seen)

    def _encode_waiting(self) -> None:
        super()._encode_waiting()
        if self.in_memory and not self.failed and not self._keeper.make_room(self.size):
            self.forget()
