"""Recordings that several tests look at: each is made once in a test run, whatever the number of workers.

``recordings(record, "mix", 0)``, with the fixture ``recordings``, returns a folder that ``record(folder, "mix", 0)``
has filled: now, or for an earlier test, perhaps of another worker. The function and its arguments name the recording:
model, level, task, seed and planted fault follow from them and from nothing else, neither from a fixture nor from the
random numbers drawn before. The function begins with ``forget()`` of ``tests.fresh_debugger``, or starts a process.

Tests only read what they get, and write results elsewhere. A test that changes a file does so in ``copy_of(folder,
tmp_path / "copy")``; the run fails at its end if a recording is not what it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Contents = dict[str, list[int]]
"""Path of a file below the recording -> its length in bytes and the time of its last change in nanoseconds."""


class Recordings:
    """The recordings of one test run, in a folder that all workers of the run share."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[Path, Contents] = {}
        root.mkdir(exist_ok=True)

    def __call__(self, record: Callable[..., object], *arguments: object) -> Path:
        """Return the folder that ``record(folder, *arguments)`` has filled; it gets an empty one.

        Raises ValueError for a function without a name of its own, and what ``record`` raises.
        """
        folder = self._root / name_of(record, arguments)
        if folder not in self._contents:
            with _locked(folder.with_name(f"{folder.name}.lock")):
                self._contents[folder] = _made(folder, record, arguments)
        return folder

    def changed(self) -> list[str]:
        """Return the files of the recordings handed out here that were changed, added or removed since."""
        return [
            f"{folder.name}/{name}"
            for folder, before in self._contents.items()
            for name in _differing(before, _contents(folder))
        ]


def name_of(record: Callable[..., object], arguments: tuple[object, ...]) -> str:
    """Return the name of a recording: readable, and different for different functions and arguments."""
    function = f"{record.__module__}.{record.__qualname__}"
    if "<" in function:
        raise ValueError(f"{function} has no name of its own: use a function of a module")
    text = repr((function, arguments))
    words = "-".join(map(str, (record.__module__.rpartition(".")[2], record.__qualname__, *arguments)))
    readable = re.sub(r"[^\w.]+", "-", words)[:80].strip("-")
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def copy_of(recording: Path, folder: Path) -> Path:
    """Copy a recording, or a part of one, for a test that changes it; returns ``folder``."""
    return Path(shutil.copytree(recording, folder, dirs_exist_ok=True))


def _made(folder: Path, record: Callable[..., object], arguments: tuple[object, ...]) -> Contents:
    """Return the contents of the recording, made here unless a process has made it; what one left undone is removed."""
    done = folder.with_name(f"{folder.name}.json")
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        record(folder, *arguments)
        done.write_text(json.dumps(_contents(folder)), encoding="utf-8")
    contents: Contents = json.loads(done.read_text(encoding="utf-8"))
    return contents


def _contents(folder: Path) -> Contents:
    found = {path: path.lstat() for path in sorted(folder.rglob("*")) if not path.is_dir()}
    return {path.relative_to(folder).as_posix(): [stat.st_size, stat.st_mtime_ns] for path, stat in found.items()}


def _differing(before: Contents, after: Contents) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file; the system gives it back when the process dies."""
    import fcntl  # not on every system

    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
