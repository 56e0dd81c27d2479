"""Where finished records go. A record is anything with ``lines()``: the journal lines that stand for it.

``write`` is on the hot path of a training step, so it only lays the record out in memory; the flusher of the process
brings that to the disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.errors import error_text
from msprobe.core.log import first_time, logger
from msprobe.core.store.earlier_run import clear_earlier_run, remove_documents
from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.journal import VERSION
from msprobe.core.store.journal_writer import JournalWriter
from msprobe.core.store.layout import JOURNAL, TENSORS, root_of
from msprobe.core.store.left_out import without
from msprobe.core.store.links import make_folder_below, take_link_away
from msprobe.core.store.shown import Backlog, Shown

BATCH = 64


class Record(Protocol):
    """Something that can be written: it knows its journal lines once its statistics are there."""

    def lines(self) -> Iterable[dict[str, Any]]: ...


class Statistics(Protocol):
    """The part of ``TensorOps`` a sink needs: are numbers still on their way, and fetch them."""

    @property
    def outstanding(self) -> bool: ...

    def settle(self) -> None: ...


class Sink(Protocol):
    """The end of the way of a record. ``publish`` makes everything so far readable, ``close`` ends the step."""

    def write(self, record: Record) -> None: ...

    def publish(self) -> None: ...

    def close(self) -> None: ...


class DirectorySink:
    """Writes one step of one process into ``folder``, ``{dump_path}/step{N}/{process}``.

    Errors of the disk are said once and end the recording of the step.

    Records are laid out as bytes some at a time: one by one would find the processor's caches cold, all at the end
    would keep their objects alive for the garbage collector to walk. While statistics are on their way from a device
    they wait.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], *, extra_info: bool, tensors: bool) -> None:
        self.folder = folder
        self.failed = False
        self.early: Callable[[], Iterable[Record]] | None = None
        self.statistics: Statistics | None = None
        self.backlog: Backlog | None = None
        self.left_out: tuple[str, ...] = ()  # statistics that were measured and are not written
        self._shown = Shown()
        self._extra_info = extra_info
        self._waiting: list[Record] = []
        self._adding = threading.Lock()  # held while records are laid out
        self._writing = threading.Lock()  # guards the file, held while the disk works
        self._journal = JournalWriter()
        with _DiskGuard(self, "create"):
            make_folder_below(root_of(folder), folder)
            clear_earlier_run(folder)
            if tensors:
                make_folder_below(folder, folder / TENSORS)
            self._journal.open(folder / JOURNAL)
            self._add({"v": VERSION, **header})
            self._write_buffer()
            if not self.failed:
                self._journal.announce(folder / JOURNAL)
        FLUSHER.add(self)

    def write(self, record: Record) -> None:
        self._waiting.append(record)
        if len(self._waiting) >= BATCH and not (self.statistics is not None and self.statistics.outstanding):
            self._lay_out_waiting()

    def flush(self) -> None:
        """Bring everything so far onto the disk (the page cache: it survives the process, not a power cut)."""
        with self._writing, _DiskGuard(self, "write"):
            self._lay_out_waiting()
            self._write_buffer()

    def _show(self, backlog: Backlog) -> None:
        """Write what has come without waiting for the background: what is complete whole, the rest as it is now."""
        with self._writing, _DiskGuard(self, "write"):
            backlog.settle_statistics()
            with self._adding:
                ready = self._waiting[: self._shown.completed(backlog.done)]
                del self._waiting[: len(ready)]
                for record in ready:
                    self._lay_out(record)
                count = len(self._waiting)
                put = backlog.put  # of a record that waits, all jobs have been put
                for record in self._waiting[self._shown.count : count]:
                    self._lay_out(record)
                self._shown.add(count, put)
            self._write_buffer()

    def tick(self) -> None:
        """One beat of the flusher: what has been added, and the inputs of calls that run for longer than a beat."""
        if self.early is not None:
            for record in self.early():
                self.write(record)
        if self.backlog is not None and self.backlog.done != self.backlog.put:
            self._show(self.backlog)
        else:
            self.flush()

    def publish(self) -> None:
        with self._writing, _DiskGuard(self, "write"):
            self._lay_out_waiting()
            self._write_buffer()
            self._publish()

    def close(self) -> None:
        """Publish, then remove the journal: from here on the documents are the whole truth."""
        FLUSHER.remove(self)
        self.publish()
        with self._writing, _DiskGuard(self, "write"):
            if not self.failed:
                (self.folder / JOURNAL).unlink()
            self.release()

    def move(self, folder: Path) -> bool:
        """Rename the folder and go on there, over what an earlier run left in its place. False when it cannot be."""
        with self._writing:
            if self.failed:
                return False
            try:
                take_link_away(folder)
                if folder.is_dir():
                    clear_earlier_run(folder)
                os.rename(self.folder, folder)
            except OSError:
                return False
            self.folder = folder
            header = dict(self._journal.index.header)
            if header.get("dump_data_dir"):
                with self._adding:
                    self._add({**header, "dump_data_dir": str(folder / TENSORS)})
            return True

    def discard(self) -> None:
        """Remove everything of this step, as if nothing had been recorded; its folders too when they are empty."""
        FLUSHER.remove(self)
        with self._writing, _DiskGuard(self, "remove"):
            self.release()
            self._waiting.clear()
            remove_documents(self.folder)
            with contextlib.suppress(OSError):  # something of someone else is in there
                self.folder.rmdir()
                self.folder.parent.rmdir()

    def release(self) -> None:
        """Let go of the file without writing: for a forked child, which must leave the parent's journal alone."""
        self.failed = True
        self._journal.close()

    def _lay_out_waiting(self) -> None:
        with self._adding:
            waiting, laid = self._waiting[:], 0
            self._shown.forget()
            try:
                del self._waiting[: len(waiting)]  # in place: another thread may be adding to this very list
                if waiting and self.statistics is not None:
                    self.statistics.settle()
                for record in waiting:
                    self._lay_out(record)
                    laid += 1
            except BaseException:  # an interrupt: the rest waits again
                self._waiting[:0] = waiting[laid:]
                raise

    def _lay_out(self, record: Record) -> None:
        try:
            for line in record.lines():
                self._add(without(line, self.left_out) if self.left_out else line)
        except Exception as error:  # noqa: BLE001  (one record must not take those behind it along)
            if first_time(("lay out", type(error))):
                name = getattr(record, "name", "a record")
                logger.error("%s could not be written: %s (the run goes on)", name, error_text(error))

    def _add(self, line: dict[str, Any]) -> None:
        if not self.failed:
            self._journal.add(line)

    def _write_buffer(self) -> None:
        if not self.failed:
            self._journal.flush()

    def _publish(self) -> None:
        if self.failed:
            return
        path = self.folder / JOURNAL
        if self._journal.doubtful:
            with self._adding:
                self._journal.repair(path)
        self._journal.publish(path, self._extra_info)


class _DiskGuard:
    """Turns an error of the disk into one message and a sink that no longer writes."""

    def __init__(self, sink: DirectorySink, what: str) -> None:
        self._sink = sink
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, OSError):
            return False
        if not self._sink.failed:
            self._sink.failed = True
            logger.error(
                "cannot %s the dump in %s (%s): nothing more is recorded in this step, training goes on. "
                "Free some space or choose another dump_path.",
                self._what,
                self._sink.folder,
                _reason(error),
            )
        return True


def _reason(error: OSError) -> str:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return f"{error.filename} is a file and no folder"
    return error.strerror or str(error)
