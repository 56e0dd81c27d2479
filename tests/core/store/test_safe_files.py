"""Links below a dump are taken away; what they lead to stays as it is."""

from __future__ import annotations

import ast
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS, root_of, step_folder
from msprobe.core.store.process_folders import clear_earlier_run
from msprobe.core.store.safe_files import (
    disk_remedy,
    is_device,
    make_folder,
    make_folder_below,
    mode_of,
    remove_symlink,
    replacement,
    write_atomic,
)
from msprobe.core.store.sink import DirectorySink
from tests.core.store.full_disk import files_of_at_most
from tests.rules.tree import label, sources

HEADER = {"task": "tensor", "level": "L1", "framework": "fake", "dump_data_dir": None}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's with a file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    return folder


@pytest.fixture
def process(tmp_path: Path) -> Path:
    return tmp_path / "dump" / "step0" / "rank0"


def record(process: Path) -> None:
    """One step is opened in ``process``, with a tensor file, and closed."""
    sink = DirectorySink(process, HEADER, extra_info=True, tensors=True)
    assert not sink.failed
    (process / TENSORS / "a.pt").write_bytes(b"")
    sink.close()


def untouched(outside: Path) -> bool:
    return {path.name: path.read_text() for path in outside.iterdir()} == {"mine": "mine"}


@pytest.mark.parametrize("depth", [0, 1, 2], ids=["step", "process", "tensors"])
def test_a_folder_is_not_reached_through_a_link(process: Path, outside: Path, depth: int) -> None:
    link = (process.parent, process, process / TENSORS)[depth]
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    record(process)
    assert untouched(outside)
    assert not link.is_symlink()
    assert (process / TENSORS / "a.pt").is_file()


@pytest.mark.parametrize("name", [DUMP, DEBUG, STACK, CONSTRUCT, JOURNAL, ERRORS])
@pytest.mark.parametrize("target", ["mine", "not there"])
def test_a_document_is_not_written_through_a_link(process: Path, outside: Path, name: str, target: str) -> None:
    process.mkdir(parents=True)
    (process / name).symlink_to(outside / target)
    record(process)
    assert untouched(outside)
    assert not (process / name).is_symlink()


def test_a_temporary_file_is_not_written_through_a_link(
    process: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 7)
    process.mkdir(parents=True)
    (process / f".{DUMP}.7.tmp").symlink_to(outside / "mine")
    record(process)
    assert untouched(outside)
    assert (process / DUMP).is_file()


def test_a_folder_is_not_moved_over_what_a_link_leads_to(process: Path, outside: Path) -> None:
    (outside / DUMP).write_text("mine too")
    sink = DirectorySink(process, HEADER, extra_info=True, tensors=True)
    process.with_name("rank1").symlink_to(outside)
    assert sink.move(process.with_name("rank1"))
    sink.close()
    assert (outside / DUMP).read_text() == "mine too"
    assert not process.with_name("rank1").is_symlink()


def test_the_way_to_the_dump_may_lead_through_links(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "dump").symlink_to(outside)
    record(tmp_path / "dump" / "step0" / "rank0")
    assert (outside / "step0" / "rank0" / DUMP).is_file()


def test_a_link_that_cannot_be_taken_away_is_an_error_and_not_followed(
    process: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.parent.mkdir(parents=True)
    process.symlink_to(outside)

    def denied(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", denied)
    sink = DirectorySink(process, HEADER, extra_info=True, tensors=True)
    assert sink.failed
    sink.close()
    assert untouched(outside)


def test_a_file_or_folder_stays(tmp_path: Path, outside: Path) -> None:
    remove_symlink(outside)
    remove_symlink(outside / "mine")
    remove_symlink(tmp_path / "nothing")
    make_folder_below(tmp_path, outside)
    assert untouched(outside)


def test_the_dump_path_of_a_process_folder(process: Path, tmp_path: Path) -> None:
    assert root_of(process) == tmp_path / "dump"


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    device = tmp_path / "device"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes a device, and only root could replace one")
    with pytest.raises(OSError, match="is a device and no file"):
        write_atomic(device, [b"x"])
    assert device.is_char_device() and os.listdir(tmp_path) == ["device"]


def test_what_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    assert is_device("/dev/null") and is_device("/dev/stdout")
    assert not is_device(tmp_path) and not is_device(tmp_path / "absent") and not is_device(tmp_path / "link")


def test_a_link_in_shared_memory_is_no_device() -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no shared memory")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        link = Path(folder, "link")
        link.symlink_to("/dev/null")
        write_atomic(link, [b"x"])
        assert link.read_bytes() == b"x" and not link.is_symlink()


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free some space or choose another dump_path"),
        (errno.ENOENT, "The folder was removed while it was in use: leave it until the program ends"),
        (errno.EACCES, "Give this user the right to write there or choose another dump_path"),
        (errno.EMFILE, "Allow more open files (ulimit -n)"),
        (errno.EIO, "Choose another dump_path"),
    ],
)
def test_the_remedy_fits_the_error(number: int, remedy: str) -> None:
    assert disk_remedy(OSError(number, "as the system says")) == remedy


def test_where_nothing_can_be_made_nothing_was_removed(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    with pytest.raises(OSError) as missing:
        (removed / "step0").mkdir()
    assert "removed" in disk_remedy(missing.value)
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc")
    with pytest.raises(OSError) as refused:
        make_folder(Path("/proc/dump"))
    expected = "The file system lets nobody make anything there: choose another dump_path"
    assert (refused.value.errno, disk_remedy(refused.value)) == (errno.ENOENT, expected)


def _replace(path: Path, chunks: list[bytes]) -> None:
    with replacement(path) as temporary, open(temporary, "wb", buffering=0) as file:
        file.writelines(chunks)


@pytest.mark.parametrize("write", [write_atomic, _replace])
@pytest.mark.parametrize(("name", "number"), [("none/a.json", errno.ENOENT), ("a.json", errno.EFBIG)])
def test_an_error_of_the_disk_names_the_file_and_not_the_temporary_one(
    write: Callable[[Path, list[bytes]], object], name: str, number: int, tmp_path: Path
) -> None:
    with files_of_at_most(4), pytest.raises(OSError) as refused:
        write(tmp_path / name, [b"four", b"more"])
    assert (refused.value.errno, refused.value.filename) == (number, str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [lambda path: write_atomic(path, [b"x"]), make_folder])
@pytest.mark.parametrize("name", ["a\0b", "a\0b/c"])
def test_a_path_with_nul_is_an_error_of_the_disk(tmp_path: Path, write: Callable[[Path], object], name: str) -> None:
    with pytest.raises(OSError, match="holds a NUL character"):
        write(tmp_path / name)


@pytest.mark.parametrize("kind", [TypeError, ValueError, OSError, FileNotFoundError])
def test_what_a_handler_raises_inside_pathlib_reaches_the_program(
    tmp_path: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joining with ``/`` takes a TypeError, and ``exists`` a ValueError or OSError, for an answer of its own."""
    monkeypatch.setattr(logger, "warning", lambda *_: None)  # logging keeps all that is raised inside of it

    def in_pathlib(at: int) -> tuple[int, bool]:
        seen, folder = 0, tmp_path / str(at)
        folder.mkdir()

        def handler(frame: FrameType, event: str, _: object) -> None:
            nonlocal seen
            if event in {"call", "c_return"} and frame.f_code.co_filename.endswith(("pathlib.py", "safe_files.py")):
                seen += 1
                if seen == at:
                    raise kind("from outside")

        (folder / "dump.json").touch()
        raised = False
        sys.setprofile(handler)
        try:
            clear_earlier_run(folder)
            make_folder_below(folder, folder.joinpath("a", "b"))
            mode_of(step_folder(folder, 0))
        except kind as error:
            raised = str(error) == "from outside"
        finally:
            sys.setprofile(None)
        return seen, raised

    count, _ = in_pathlib(-1)
    assert count > 50
    for at in range(1, count + 1):
        seen, raised = in_pathlib(at)
        assert raised or seen < at, at


@pytest.mark.parametrize("folder", ["msprobe/core/dump", "msprobe/core/store"])
def test_no_path_is_joined_by_a_slash_where_the_program_runs(folder: str) -> None:
    """Pathlib makes another error of the TypeError that a handler of the program raises meanwhile."""
    joined = {
        f"{label(path)}:{node.lineno}"
        for path in sources(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    }
    assert not joined
