"""Messages between two processes that share open files: a head of JSON values, and arrays.

The content lies in a file without a name, so that no side waits for the other one to read; a pipe tells where.

A copy of this process that does a part of the work.

``fork`` is safe only where no other thread runs: a lock that one holds stays locked in the copy for ever. The copy
shares what was loaded before, without loading it again.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

_PLACE = struct.Struct("<qq")
Arrays = Mapping[str, NDArray[Any]]


class LostError(Exception):
    """The other process is gone."""


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


_TASKS = "/proc/self/task"


def can_fork() -> bool:
    """Whether this process may be copied."""
    try:
        return hasattr(os, "fork") and len(os.listdir(_TASKS)) == 1
    except OSError:  # a system that does not tell
        return False


class Forked:
    """Runs ``work`` in a copy of this process, with the other end of ``channel``. Its files lie in ``folder``."""

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
