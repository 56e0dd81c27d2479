"""Write finished records into the files of a step. A record is any object with ``lines()``, its journal lines.

``write`` is on the hot path of a training step: it appends to a list in memory and serializes every 64th time. The
flusher thread of the process, or ``publish``, writes to the disk.

With ``async_dump`` a record waits for its tensor files and checksums, on a slow disk for many seconds, and a process
that is killed meanwhile must not lose it. So the next tick writes a waiting record as it is (``EarlyWrites``), and it
is written again when its jobs are done: a later body of an entry adds to the earlier one.

Writing each record once, when its jobs are done, was measured: of 400 calls whose files took 10 ms each, a process
killed after 1 s left 400 entries with early writes, and none without. The price is a journal of 679 instead of 372 kB.

Statistics that a list in ``summary_mode`` does not name are dropped from records on their way to the disk
(``drop_statistics``). They are measured all the same, in one pass with the others, and the judges of calls use them.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.errors import error_text
from msprobe.core.interruption import from_outside, ignored, let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.journal import VERSION, JournalIndex, JournalWriter
from msprobe.core.store.layout import DEBUG, DOCUMENTS, DUMP, JOURNAL, TENSORS, root_of
from msprobe.core.store.process_folders import clear_earlier_run, remove_documents
from msprobe.core.store.runs import run_of_step
from msprobe.core.store.safe_files import disk_remedy, make_folder_below, mode_of, remove_symlink

BATCH = 64


class Record(Protocol):
    """An object that can be written: it knows its journal lines once its statistics have arrived."""

    def lines(self) -> Iterable[dict[str, Any]]:
        """Return the journal lines of the record, as they are now."""
        ...


class Sink(Protocol):
    """Takes finished records. ``publish`` makes all records so far readable, ``close`` ends the step."""

    def write(self, record: Record) -> None: ...

    def publish(self) -> None: ...

    def close(self) -> None: ...


class Account(Protocol):
    """Counts the bytes that a step has on the disk (see ``core/dump/bounds/disk_budget.py``)."""

    @property
    def reached(self) -> bool:
        """Whether nothing more may be written."""
        ...

    def set_documents(self, size: int) -> None:
        """Count ``size`` bytes for the documents and the journal, in place of what they counted before."""
        ...

    def add_tensor(self, path: str) -> None:
        """Count a tensor file that was written."""
        ...

    def refund(self) -> None:
        """Count nothing for this step: its files were removed."""
        ...


class DirectorySink:
    """Write one step of one process into ``folder``, ``{dump_path}/step{N}/{process}``.

    An error of the disk is logged once and ends the recording of the step.

    Records are encoded in batches: encoding each one by itself would run with cold processor caches, and encoding all
    of them at the end would keep their objects alive for the garbage collector to walk. While statistics are still
    being copied from a device, the records wait.

    Args:
        folder: the folder of the process; it is created, and the files of an earlier run in it are removed.
        header: the fields of dump.json beside ``data``.
        extra_info: also write stack.json and construct.json.
        tensors: also create the folder of tensor files.
        pending: what records wait for before they are written; None when they are complete at once.
        dropped: the statistics to leave out of each record, by their names in dump.json.

    Attributes:
        account: counts the bytes that are written; None to count none.
    """

    def __init__(
        self,
        folder: Path,
        header: Mapping[str, Any],
        *,
        extra_info: bool,
        tensors: bool,
        pending: PendingJobs | None = None,
        dropped: Collection[str] = (),
    ) -> None:
        self.folder = folder
        self.failed = False
        self.account: Account | None = None
        self._watch: Callable[[str, Any], None] | None = None  # is shown every record, with all its statistics
        self._pending = pending
        self._dropped = dropped
        self._early = EarlyWrites()
        self._extra_info = extra_info
        self._tensors = tensors
        self._waiting: list[Record] = []
        self._adding = threading.Lock()  # held while records are encoded
        self._writing = threading.Lock()  # guards the file, held while the disk works
        self._journal = JournalWriter()
        self._add({"v": VERSION, **header, "run": run_of_step()})
        self._begin()
        FLUSHER.add(self)

    def _begin(self) -> None:
        """Make the files of the step."""
        self._create_files()

    def _create_files(self) -> None:
        folder = self.folder
        with _DiskGuard(self, "create"):
            make_folder_below(root_of(folder), folder)
            clear_earlier_run(folder)
            if self._tensors:
                make_folder_below(folder, folder.joinpath(TENSORS))
            self._journal.open(folder.joinpath(JOURNAL))
            index = self._flushed_index()
            if not self.failed:
                self._journal.announce(folder.joinpath(JOURNAL), index)

    @property
    def document(self) -> Path:
        """The document that ``publish`` writes."""
        return self.folder.joinpath(DEBUG if self._journal.index.only_points else DUMP)

    def write(self, record: Record) -> None:
        """Take a record; it is encoded with its batch, or when its statistics have arrived."""
        self._waiting.append(record)
        if len(self._waiting) >= BATCH and not (self._pending is not None and self._pending.outstanding):
            self._encode_waiting()

    def flush(self) -> None:
        """Write every record so far to the page cache of the disk, which survives the process but not a power cut."""
        with self._writing, _DiskGuard(self, "write"):
            self._encode_waiting()
            self._write_buffer()

    def _write_early(self, pending: PendingJobs) -> None:
        """Write the waiting records without waiting for background jobs: complete ones whole, others as they are."""
        with self._writing, _DiskGuard(self, "write"):
            with self._adding:
                ready, put = len(self._waiting), pending.put  # all jobs of a record that waits have been put
                pending.settle_statistics()
                done = pending.done
                if done >= put:
                    self._early.clear()
                else:
                    ready = self._early.take_complete(done)
                complete = self._waiting[:ready]
                del self._waiting[:ready]
                for record in complete:
                    self._encode(record)
                if done < put:
                    self._encode_early(pending)
            self._write_buffer()

    def _encode_early(self, pending: PendingJobs) -> None:
        count, put = len(self._waiting), pending.put
        for record in self._waiting[self._early.count : count]:
            self._encode(record)
        self._early.add(count, put)

    def tick(self) -> None:
        """Write what was added since the last tick of the flusher."""
        if self._pending is not None:
            self._write_early(self._pending)
        else:
            self.flush()

    def publish(self) -> None:
        """Write every record so far, and the documents made of them."""
        with self._writing, _DiskGuard(self, "write"):
            self._encode_waiting()
            self._publish()

    def close(self) -> None:
        """Publish the documents and remove the journal."""
        FLUSHER.remove(self)
        self.publish()
        with self._writing, _DiskGuard(self, "write"):
            if not self.failed:
                self.folder.joinpath(JOURNAL).unlink()
                if self.account is not None:
                    paths = [self.folder.joinpath(name) for name in DOCUMENTS]
                    self.account.set_documents(sum(path.stat().st_size for path in paths if mode_of(path)))
            self.release()

    def add_header(self, fields: Mapping[str, Any]) -> None:
        """Add fields to the header of dump.json, for the next ``publish``."""
        with self._adding:
            self._add({**self._journal.index.header, **fields})

    def move(self, folder: Path) -> bool:
        """Rename the folder to ``folder``, replacing the files of an earlier run; return False when that fails."""
        with self._writing:
            if self.failed:
                return False
            try:
                remove_symlink(folder)
                if stat.S_ISDIR(mode_of(folder)):
                    clear_earlier_run(folder)
                os.rename(self.folder, folder)
            except OSError as error:
                let_through(error)
                return False
            self.folder = folder
            if self._journal.index.header.get("dump_data_dir"):
                self.add_header({"dump_data_dir": str(folder.joinpath(TENSORS))})
            return True

    def discard(self) -> None:
        """Remove the files of this step, and its folders when they are empty then."""
        FLUSHER.remove(self)
        with self._writing, _DiskGuard(self, "remove"):
            self.release()
            self._waiting.clear()
            remove_documents(self.folder)
            if self.account is not None:
                self.account.refund()
            with ignored(OSError):  # the folder holds files of others
                self.folder.rmdir()
                self.folder.parent.rmdir()

    def release(self) -> None:
        """Close the file without writing: a forked child must not write into the journal of its parent."""
        self.failed = True
        self._journal.close()

    def _encode_waiting(self) -> None:
        with self._adding:
            waiting, encoded = self._waiting[:], 0
            self._early.clear()
            try:
                del self._waiting[: len(waiting)]  # in place: another thread may be adding to this very list
                if waiting and self._pending is not None:
                    self._pending.settle()
                for record in waiting:
                    self._encode(record)
                    encoded += 1
            except BaseException:  # on an interrupt the rest waits again
                self._waiting[:0] = waiting[encoded:]
                raise

    def _encode(self, record: Record) -> None:
        try:
            for line in record.lines():
                if self._watch is not None and "d" in line:
                    self._watch(line["e"], line["d"])
                self._add(drop_statistics(line, self._dropped) if self._dropped else line)
        except Exception as error:  # noqa: BLE001  (one record must not take those behind it along)
            let_through(error)
            if first_time(("encode", type(error))):
                name = getattr(record, "name", "a record")
                logger.error("%s could not be written: %s (the run goes on)", name, error_text(error))

    def _add(self, line: dict[str, Any]) -> None:
        if not self.failed:
            self._journal.add(line)

    def _write_buffer(self) -> None:
        if not self.failed:
            self._journal.flush()
            if self.account is not None:
                self.account.set_documents(2 * self._journal.written)

    def _publish(self) -> None:
        if self.failed:
            return
        path = self.folder.joinpath(JOURNAL)
        self._journal.publish(path, self._flushed_index(), self._extra_info)

    def _flushed_index(self) -> JournalIndex:
        """Return a copy of the index, all of which is in the file: other threads go on adding records meanwhile."""
        with self._adding:
            if self._journal.doubtful:
                self._journal.repair(self.folder.joinpath(JOURNAL))
            index = self._journal.index.copy()
        self._write_buffer()
        return index


class _DiskGuard:
    """Turn an error of the disk into one message and into a sink that writes no more."""

    def __init__(self, sink: DirectorySink, what: str) -> None:
        self._sink = sink
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, OSError) or from_outside(error):
            return False
        if not self._sink.failed:
            self._sink.failed = True
            logger.error(
                "cannot %s the dump in %s (%s): nothing more is recorded in this step, training goes on. %s.",
                self._what,
                self._sink.folder,
                _reason(error),
                disk_remedy(error),
            )
        return True


def _reason(error: OSError) -> str:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return f"{error.filename} is a file and no folder"
    return error.strerror or str(error)


class PendingJobs(Protocol):
    """What records wait for: statistics on their way from a device, and jobs in the background.

    Jobs are counted: the job that was put as number n is done when ``done`` has reached n.
    """

    @property
    def outstanding(self) -> bool:
        """Whether a record may still be incomplete."""
        ...

    @property
    def put(self) -> int:
        """The number of jobs put so far."""
        ...

    @property
    def done(self) -> int:
        """The number of jobs done so far."""
        ...

    def settle_statistics(self) -> None:
        """Return when the statistics have arrived; jobs in the background are not waited for."""
        ...

    def settle(self) -> None:
        """Return when the statistics have arrived and every job put so far is done."""
        ...


class EarlyWrites:
    """Count the early records at the front of a list of waiting records.

    The owner of the list holds its lock around every call.
    """

    def __init__(self) -> None:
        self.count = 0
        self._marks: deque[tuple[int, int]] = deque()  # number of the last job, end of the records that wait for it
        self._removed = 0

    def clear(self) -> None:
        """Start anew: every waiting record has been written whole."""
        self.count = self._removed = 0
        self._marks.clear()

    def take_complete(self, done: int) -> int:
        """Return how many early records are complete when ``done`` jobs are done, and count them no longer."""
        end = self._removed
        while self._marks and self._marks[0][0] <= done:
            end = self._marks.popleft()[1]
        number, self._removed = end - self._removed, end
        self.count -= number
        return number

    def add(self, count: int, put: int) -> None:
        """Note that ``count`` records are early now, complete when the jobs up to number ``put`` are done."""
        self.count = count
        self._marks.append((put, self._removed + count))


def drop_statistics(node: Any, names: Collection[str]) -> Any:
    """Return a copy of ``node`` in which tensors lack the fields ``names``; other values are the same objects."""
    if isinstance(node, dict):
        tensor = "shape" in node and "dtype" in node
        return {key: drop_statistics(part, names) for key, part in node.items() if not (tensor and key in names)}
    return [drop_statistics(part, names) for part in node] if isinstance(node, list) else node


def writer_mark(framework_version: str, device: str = "") -> dict[str, str]:
    """Return the field ``written_by`` of a dump that this version of msprobe writes; ``device`` is the kind of device
    on which the framework computes, "" where each tensor has its own."""
    version = sys.modules["msprobe"].__version__  # core must not import the package, whose facade names the tools
    mark = {"name": "msprobe", "version": version}
    further = {"framework_version": framework_version, "device": device}
    return mark | {name: value for name, value in further.items() if value}
