"""Which folder a process records into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from msprobe.core.dump.session import rank_folder
from msprobe.core.dump.session.rank_folder import RankFolder
from msprobe.core.store.process_folders import FolderLock

pytest.importorskip("fcntl")

OWN = f"rank0_{os.getpid()}"


class OpenFolder:
    """The folder of an open step: it can be renamed, unless the new name is ``taken``."""

    def __init__(self, folder: Path, taken: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.taken = taken

    def rename(self, folder: Path) -> bool:
        if folder.name in self.taken:
            return False
        self.folder = folder
        return True


@pytest.fixture
def other(tmp_path: Path) -> Iterator[FolderLock]:
    """Return the locks of another process: to the system, a second set of locks is like one."""
    locks = FolderLock()
    yield locks
    locks.release()
    rank_folder.FOLDER_LOCK.release()


def locked(other: FolderLock, folder: Path) -> None:
    folder.mkdir(parents=True)
    assert other.acquire(folder)


@pytest.mark.parametrize(("rank", "name"), [(3, "rank3"), (None, f"proc{os.getpid()}")], ids=["rank", "process"])
def test_the_usual_folder(tmp_path: Path, rank: int | None, name: str) -> None:
    assert RankFolder().folder(tmp_path, 2, rank) == tmp_path / "step2" / name


def test_a_rank_that_is_taken_once_is_left_alone_ever_after(tmp_path: Path, other: FolderLock) -> None:
    locked(other, tmp_path / "step0" / "rank0")
    folders = RankFolder()
    assert folders.folder(tmp_path, 0, 0).name == OWN
    other.release()
    assert folders.folder(tmp_path, 1, 0).name == OWN
    assert folders.folder(tmp_path, 1, 1).name == "rank1"


def test_a_move_to_a_rank_that_is_taken(tmp_path: Path, other: FolderLock) -> None:
    locked(other, tmp_path / "step0" / "rank0")
    folders = RankFolder()
    step = OpenFolder(folders.folder(tmp_path, 0, None))
    folders.move(step.folder, 0, step.rename)
    assert step.folder.name == OWN


def test_a_move_that_finds_the_name_taken(tmp_path: Path) -> None:
    folders = RankFolder()
    step = OpenFolder(folders.folder(tmp_path, 0, None), taken=("rank0",))
    folders.move(step.folder, 0, step.rename)
    assert step.folder.name == OWN


def test_a_move_that_is_not_possible_at_all(tmp_path: Path) -> None:
    folders = RankFolder()
    folder = folders.folder(tmp_path, 0, None)
    step = OpenFolder(folder, taken=("rank0", OWN))
    folders.move(step.folder, 0, step.rename)
    assert step.folder == folder


STARTING = """
import sys
from pathlib import Path
from msprobe.core.dump.session.rank_folder import RankFolder
for step in range(3):
    print(RankFolder().folder(Path(sys.argv[1]), step, 0))
"""


def test_a_fresh_folder_of_several_ranks_is_left_alone(tmp_path: Path) -> None:
    """Ranks that began earlier are no earlier run, and no rank asks the disk about the folders of the others."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    for rank in range(1, 200):
        (tmp_path / f"step0/rank{rank}").mkdir(parents=True)
        (tmp_path / f"step0/rank{rank}/dump.json").write_text("{}")
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-e", "trace=file,getdents64", "-o", trace, sys.executable, "-c", STARTING, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [Path(line).name for line in done.stdout.splitlines()] == ["rank0"] * 3
    calls = [line for line in trace.read_text().splitlines() if str(tmp_path / "step") in line]
    assert calls
    assert [line for line in calls if "rank" in line and "rank0" not in line] == []
