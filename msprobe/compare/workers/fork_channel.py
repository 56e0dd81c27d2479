"""Copies of this process that do parts of the work, and the messages between them and this process.

``worker_pool`` starts the copies and ends all of them. A copy (``ForkedWorker``) shares what was loaded before, without
loading it again. ``fork`` is safe only where no other thread runs (see ``core.host.can_fork``): a lock that another
thread holds stays locked in the copy for ever.

A ``Channel`` joins a copy and this process. A message is a head of JSON values, and arrays. Its content lies in a file
without a name that both processes have open, so that no side waits for the other one to read; a pipe says where it
lies. When the other process is gone, both ends raise ``LostError``, and the process that started the work does all of
it by itself.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

_PLACE = struct.Struct("<qq")
Arrays = Mapping[str, NDArray[Any]]


class LostError(Exception):
    """The other process is gone."""


class UndividedError(Exception):
    """One process has to do the work: no other can be started, or the work is not to be split."""


class _Line:
    """One direction."""

    def __init__(self, folder: Path) -> None:
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed with the channel)
        self.source, self.sink = os.pipe()
        self.end = 0


class Channel:
    """One end; ``first`` is the end of the process that made the lines."""

    def __init__(self, lines: tuple[_Line, _Line], *, first: bool) -> None:
        self._out, self._in = lines if first else lines[::-1]
        os.close(self._out.source)
        os.close(self._in.sink)

    def write(self, data: bytes) -> int:
        """Append bytes that a later head tells of; returns where they are."""
        at = self._out.end
        view = memoryview(data)
        while view:
            count = os.pwrite(self._out.file.fileno(), view, self._out.end)
            self._out.end += count
            view = view[count:]
        return at

    def rewind(self) -> None:
        """The other side needs nothing any more that was sent to it."""
        self._out.end = 0

    def read(self, at: int, size: int) -> bytes:
        """What the other side wrote there.

        Raises:
            LostError: it is not there.
        """
        data = os.pread(self._in.file.fileno(), size, at)
        if len(data) != size:
            raise LostError
        return data

    def send(self, head: Any, arrays: Arrays | None = None) -> None:
        """Send a message.

        Raises:
            LostError: nobody will read it.
        """
        given = arrays or {}
        places = {name: (one.dtype.str, one.shape, self.write(one.tobytes())) for name, one in given.items()}
        text = to_json([head, places], inf_nan_mode="constants")
        place = _PLACE.pack(self.write(text), len(text))
        try:
            os.write(self._out.sink, place)
        except BrokenPipeError as error:
            raise LostError from error

    def waiting(self) -> bool:
        """Whether a message, or the end of the other side, is there."""
        return bool(select.select([self._in.source], [], [], 0)[0])

    def receive(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Wait for a message: its head, and its arrays, which cannot be written to.

        Raises:
            LostError: none will come.
        """
        place = os.read(self._in.source, _PLACE.size)
        if len(place) != _PLACE.size:
            raise LostError
        head, places = from_json(self.read(*_PLACE.unpack(place)), allow_inf_nan=True)
        return head, {name: self._array(*where) for name, where in places.items()}

    def close(self) -> None:
        """Let go of files and pipes."""
        os.close(self._out.sink)
        os.close(self._in.source)
        self._out.file.close()
        self._in.file.close()

    def _array(self, dtype: str, shape: list[int], at: int) -> NDArray[Any]:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.read(at, count * kind.itemsize), kind).reshape(shape)


def lines_in(folder: Path) -> tuple[_Line, _Line]:
    """The lines of a channel, with files in ``folder``.

    Raises:
        OSError: nothing can be written there.
    """
    return _Line(folder), _Line(folder)


@contextmanager
def worker_pool(tasks: Sequence[Callable[[Channel], None]], folder: Path) -> Iterator[list[Channel]]:
    """Run each task in a copy of this process; yield the channels to the copies, in the order of the tasks.

    All copies end with the ``with`` block. Their files lie in ``folder``.

    Raises:
        UndividedError: there is no room for a process or its files.
    """
    with ExitStack() as stack:
        channels = []
        for task in tasks:
            try:
                worker = ForkedWorker(task, folder)
            except OSError as error:
                raise UndividedError from error
            stack.callback(worker.end)
            channels.append(worker.channel)
        yield channels


class ForkedWorker:
    """A copy of this process that runs ``work`` with the other end of ``channel``. Its files lie in ``folder``."""

    def __init__(self, work: Callable[[Channel], None], folder: Path) -> None:
        lines = lines_in(folder)
        self._process = os.fork()
        if self._process == 0:
            _work(work, Channel(lines, first=False))
        self.channel = Channel(lines, first=True)

    def end(self) -> None:
        """End the copy, whatever it does."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self.channel.close()


def exit_worker() -> NoReturn:
    """End a copy whose work is done, without freeing object by object what it holds."""
    os._exit(0)


def _work(work: Callable[[Channel], None], channel: Channel) -> None:
    """Never returns: what the caller of ``fork`` would go on with is the parent's."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
        work(channel)
    except LostError:
        pass
    finally:
        os._exit(0)
