"""A folder belongs to one process for as long as that lives."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from msprobe.core.store import process_folders
from msprobe.core.store.process_folders import FolderLock

pytest.importorskip("fcntl")

HOLDER = """
import sys
from pathlib import Path
from types import FrameType
from msprobe.core.store.process_folders import FOLDER_LOCK
print(FOLDER_LOCK.acquire(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked ``folder``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def locks() -> Iterator[FolderLock]:
    folder_locks = FolderLock()
    yield folder_locks
    folder_locks.release()


def test_a_free_folder_can_be_locked_again_and_again(tmp_path: Path, locks: FolderLock) -> None:
    assert locks.acquire(tmp_path)
    assert locks.acquire(tmp_path)
    assert locks.holds(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_live_process_has_is_not_free_and_what_a_killed_one_had_is(tmp_path: Path, locks: FolderLock) -> None:
    with held_elsewhere(tmp_path) as process:
        assert not locks.acquire(tmp_path)
        assert not locks.holds(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert locks.acquire(tmp_path)


def test_a_lock_follows_a_rename(tmp_path: Path, locks: FolderLock) -> None:
    old, new, other = tmp_path / "proc1", tmp_path / "rank0", FolderLock()
    old.mkdir()
    assert locks.acquire(old)
    os.rename(old, new)
    locks.rename(old, new)
    assert locks.holds(new)
    assert not other.acquire(new)  # a second set of locks is like another process to the system
    old.mkdir()
    assert other.acquire(old)
    other.release()


def test_a_folder_made_again_is_another_folder(tmp_path: Path, locks: FolderLock) -> None:
    folder = tmp_path / "rank0"
    folder.mkdir()
    locks.acquire(folder)
    os.rename(folder, tmp_path / "elsewhere")
    folder.mkdir()
    assert not locks.holds(folder)
    with held_elsewhere(folder):
        assert not locks.acquire(folder)


def test_one_handle_locks_the_first_folder_of_a_dump_path(tmp_path: Path, locks: FolderLock) -> None:
    folders = [tmp_path / "dump" / f"step{number}" / "rank0" for number in range(70)]
    elsewhere = tmp_path / "other" / "step0" / "rank0"
    for folder in (*folders, elsewhere):
        folder.mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    assert all(map(locks.acquire, folders))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert [locks.holds(folder) for folder in folders] == [True] + [False] * 69
    other = FolderLock()  # of a second process of the same rank
    assert not other.acquire(folders[0])
    assert other.acquire(folders[1])
    assert not locks.acquire(folders[1])
    assert locks.acquire(elsewhere)
    assert other.acquire(folders[0])
    assert len(os.listdir("/proc/self/fd")) == before + 2
    other.release()


def test_a_first_folder_that_is_removed_frees_the_lock_for_the_next(tmp_path: Path, locks: FolderLock) -> None:
    first, second = tmp_path / "step0" / "rank0", tmp_path / "step1" / "rank0"
    for folder in (first, second):
        folder.mkdir(parents=True)
        assert locks.acquire(folder)
        if folder is first:
            folder.rmdir()
    assert locks.holds(second)


def test_no_folder_no_lock(tmp_path: Path, locks: FolderLock) -> None:
    assert locks.acquire(tmp_path / "missing")
    assert not locks.holds(tmp_path / "missing")


@pytest.mark.parametrize("held", [None, "one", "elsewhere/one"])
def test_an_interrupt_leaves_no_folder_locked(tmp_path: Path, held: str | None) -> None:
    folder = tmp_path / "root" / "step0" / "rank0"
    folder.mkdir(parents=True)
    for place in itertools.count():
        locks = FolderLock()
        if held is not None:
            (tmp_path / "root" / held).mkdir(parents=True, exist_ok=True)
            assert locks.acquire(tmp_path / "root" / held)
        countdown = iter(range(place, -1, -1))

        def interrupt(frame: FrameType, event: str, argument: object, countdown: Iterator[int] = countdown) -> None:
            is_here = frame.f_code.co_filename == process_folders.__file__ and event in {"call", "c_return"}
            if is_here and next(countdown, None) == 0:  # where the interpreter runs handlers of signals
                raise InterruptedError

        try:
            sys.setprofile(interrupt)
            locks.acquire(folder)
        except InterruptedError:
            pass
        else:
            return
        finally:
            sys.setprofile(None)
            locks.release()
        other = FolderLock()
        assert other.acquire(folder), f"place {place}"
        other.release()
