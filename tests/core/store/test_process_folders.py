"""A folder belongs to one process for as long as that lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from msprobe.core.store.process_folders import FolderLocks

pytest.importorskip("fcntl")

HOLDER = """
import sys
from pathlib import Path
from msprobe.core.store.process_folders import FOLDER_LOCKS
print(FOLDER_LOCKS.acquire(Path(sys.argv[1])), flush=True)
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
def locks() -> Iterator[FolderLocks]:
    folder_locks = FolderLocks()
    yield folder_locks
    folder_locks.release()


def test_a_free_folder_can_be_locked_again_and_again(tmp_path: Path, locks: FolderLocks) -> None:
    assert locks.acquire(tmp_path)
    assert locks.acquire(tmp_path)
    assert locks.holds(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_live_process_has_is_not_free_and_what_a_killed_one_had_is(tmp_path: Path, locks: FolderLocks) -> None:
    with held_elsewhere(tmp_path) as process:
        assert not locks.acquire(tmp_path)
        assert not locks.holds(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert locks.acquire(tmp_path)


def test_a_lock_follows_a_rename(tmp_path: Path, locks: FolderLocks) -> None:
    old, new, other = tmp_path / "proc1", tmp_path / "rank0", FolderLocks()
    old.mkdir()
    assert locks.acquire(old)
    os.rename(old, new)
    locks.rename(old, new)
    assert locks.holds(new)
    assert not other.acquire(new)  # a second set of locks is like another process to the system
    old.mkdir()
    assert other.acquire(old)
    other.release()


def test_a_folder_made_again_is_another_folder(tmp_path: Path, locks: FolderLocks) -> None:
    folder = tmp_path / "rank0"
    folder.mkdir()
    locks.acquire(folder)
    os.rename(folder, tmp_path / "elsewhere")
    folder.mkdir()
    assert not locks.holds(folder)
    with held_elsewhere(folder):
        assert not locks.acquire(folder)


def test_the_oldest_locks_are_released(tmp_path: Path, locks: FolderLocks) -> None:
    folders = [tmp_path / str(number) for number in range(70)]
    for folder in folders:
        folder.mkdir()
        assert locks.acquire(folder)
    assert not locks.holds(folders[0])
    assert locks.holds(folders[-1])


def test_no_folder_no_lock(tmp_path: Path, locks: FolderLocks) -> None:
    assert locks.acquire(tmp_path / "missing")
    assert not locks.holds(tmp_path / "missing")
