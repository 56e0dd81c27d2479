"""Links below a dump are taken away; what they lead to stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, ERRORS, JOURNAL, STACK, TENSORS, root_of
from msprobe.core.store.safe_files import make_folder_below, remove_symlink
from msprobe.core.store.sink import DirectorySink

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
