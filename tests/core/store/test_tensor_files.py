"""Writing tensor files: whole or absent, private, equal ones written once, never one in place of another."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from msprobe.core.store.safe_files import create_new
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.store.tensor_writer import TensorFiles, write_new
from tests.core.store.full_disk import files_of_at_most

BYTES = ("ByteStorage", 1)
SMALL, LARGE = 10, 200_000


def write(files: TensorFiles, path: Path, elements: bytes, crc: int | None = None) -> None:
    files.write(path, BYTES, (len(elements),), elements, zlib.crc32(elements) if crc is None else crc)


@pytest.mark.parametrize("size", [0, SMALL, LARGE])
def test_equal_tensors_are_one_file(tmp_path: Path, size: int) -> None:
    files = TensorFiles()
    for name in ("a.pt", "b.pt", "c.pt"):
        write(files, tmp_path / name, bytes(size))
    found = [os.stat(tmp_path / name) for name in ("a.pt", "b.pt", "c.pt")]
    assert len({one.st_ino for one in found}) == 1
    assert {stat.S_IMODE(one.st_mode) for one in found} == {0o600}


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_equal_checksum_is_not_taken_for_equal_bytes(tmp_path: Path, size: int) -> None:
    files = TensorFiles()
    write(files, tmp_path / "a.pt", bytes(size), crc=7)
    write(files, tmp_path / "b.pt", bytes(size - 1) + b"x", crc=7)
    assert read_tensor(tmp_path / "a.pt").tolist()[-1] == 0
    assert read_tensor(tmp_path / "b.pt").tolist()[-1] == ord("x")


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b""), os.unlink], ids=["emptied", "removed"])
def test_an_earlier_file_that_was_spoilt_is_not_linked(tmp_path: Path, change: object) -> None:
    files = TensorFiles()
    write(files, tmp_path / "a.pt", b"12")
    assert callable(change)
    change(tmp_path / "a.pt")
    write(files, tmp_path / "b.pt", b"12")
    assert read_tensor(tmp_path / "b.pt").tobytes() == b"12"


def test_a_name_that_is_written_again_leaves_the_others_alone(tmp_path: Path) -> None:
    files = TensorFiles()
    write(files, tmp_path / "a.pt", b"12")
    write(files, tmp_path / "b.pt", b"12")
    write(files, tmp_path / "a.pt", b"34")
    write(files, tmp_path / "b.pt", b"34")
    write(files, tmp_path / "c.pt", b"12")
    assert [read_tensor(tmp_path / f"{name}.pt").tobytes() for name in "abc"] == [b"34", b"34", b"12"]


def test_another_folder_gets_a_file_of_its_own(tmp_path: Path) -> None:
    files = TensorFiles()
    for folder in (tmp_path / "step0", tmp_path / "step1"):
        folder.mkdir()
        write(files, folder / "a.pt", b"12")
    assert os.stat(tmp_path / "step1" / "a.pt").st_nlink == 1


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "a.pt").symlink_to(tmp_path / "mine")
    write(TensorFiles(), tmp_path / "a.pt", b"12")
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert read_tensor(tmp_path / "a.pt").tobytes() == b"12"


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    (tmp_path / "a.pt").mkdir()
    with pytest.raises(FileExistsError):
        create_new(tmp_path / "a.pt")
    assert (tmp_path / "a.pt").is_dir()


def test_a_file_that_cannot_be_finished_is_removed(tmp_path: Path) -> None:
    with files_of_at_most(1000), pytest.raises(OSError, match="too large"):
        write_new(str(tmp_path / "a.pt"), [b"head", bytes(5000), b"tail"])
    assert list(tmp_path.iterdir()) == []


def test_pieces_of_any_size_follow_one_another(tmp_path: Path) -> None:
    pieces = [b"head", b"", os.urandom(300_000), b"tail"]
    write_new(str(tmp_path / "a.pt"), pieces)
    assert (tmp_path / "a.pt").read_bytes() == b"".join(pieces)


KILLED = """
import os, sys
from pathlib import Path
from msprobe.core.store.tensor_writer import TensorFiles
elements = bytes(300_000_000)
os.write(1, b"begins")
TensorFiles().write(Path(sys.argv[1]), ("ByteStorage", 1), (len(elements),), elements, 0)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_no_part_under_the_name(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "a.pt")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"begins"
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        process.kill()
    assert not (tmp_path / "a.pt").exists()
    assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
