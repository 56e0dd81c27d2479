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
print(FOLDER_LOCKS.take(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has claimed ``folder``."""
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
def claims() -> Iterator[FolderLocks]:
    found = FolderLocks()
    yield found
    found.release()


def test_a_free_folder_can_be_claimed_again_and_again(tmp_path: Path, claims: FolderLocks) -> None:
    assert claims.take(tmp_path)
    assert claims.take(tmp_path)
    assert claims.holds(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_live_process_has_is_not_free_and_what_a_killed_one_had_is(tmp_path: Path, claims: FolderLocks) -> None:
    with held_elsewhere(tmp_path) as process:
        assert not claims.take(tmp_path)
        assert not claims.holds(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert claims.take(tmp_path)


def test_a_claim_follows_a_rename(tmp_path: Path, claims: FolderLocks) -> None:
    old, new, other = tmp_path / "proc1", tmp_path / "rank0", FolderLocks()
    old.mkdir()
    assert claims.take(old)
    os.rename(old, new)
    claims.renamed(old, new)
    assert claims.holds(new)
    assert not other.take(new)  # another set of claims is to the system what another process is
    old.mkdir()
    assert other.take(old)
    other.release()


def test_a_folder_made_again_is_another_folder(tmp_path: Path, claims: FolderLocks) -> None:
    folder = tmp_path / "rank0"
    folder.mkdir()
    claims.take(folder)
    os.rename(folder, tmp_path / "elsewhere")
    folder.mkdir()
    assert not claims.holds(folder)
    with held_elsewhere(folder):
        assert not claims.take(folder)


def test_the_oldest_claims_are_given_up(tmp_path: Path, claims: FolderLocks) -> None:
    folders = [tmp_path / str(number) for number in range(70)]
    for folder in folders:
        folder.mkdir()
        assert claims.take(folder)
    assert not claims.holds(folders[0])
    assert claims.holds(folders[-1])


def test_no_folder_no_claim(tmp_path: Path, claims: FolderLocks) -> None:
    assert claims.take(tmp_path / "missing")
    assert not claims.holds(tmp_path / "missing")
