"""A zip file whose headers lie about a size is read, or refused, in the memory that they tell."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from msprobe.adapters.pytorch.checkpoints.checkpoint_reader import read_checkpoint
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.report.table_reader import read_table
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.pack import MEMBER, read_pack, update_pack
from tests.swollen_zips import add_swollen

torch = pytest.importorskip("torch")
xlsxwriter = pytest.importorskip("xlsxwriter")
pytestmark = pytest.mark.torch
BLOCK = bytes(1 << 20)
TIMES = 256
MOST = 16 << 20


def _book(path: Path) -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        book.add_worksheet().write_row(0, 0, ["Name", "x"])


def _pack(path: Path) -> None:
    update_pack(path, lambda present: SetupDocument())


KINDS: dict[str, tuple[str, str, Callable[[Path], object], Callable[[Path], object]]] = {
    "elements": ("a.pt", "data/0", lambda path: torch.save(torch.arange(6.0), path), read_tensor),
    "description": ("a.pt", "data.pkl", lambda path: torch.save(torch.arange(6.0), path), read_tensor),
    "checkpoint": ("a.pt", "data/0", lambda path: torch.save({"w": torch.ones(6)}, path), read_checkpoint),
    "workbook": ("a.xlsx", "xl/worksheets/sheet1.xml", _book, read_table),
    "set-up": ("a.zip", MEMBER, _pack, read_pack),
}
"""File, the end of the name of a member, what writes the file, what reads it."""


def _swollen(path: Path, member: str, *, lies: bool) -> None:
    """Let a member unpack to much more than its content, which its headers tell of or not."""
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if name.endswith(member):
                add_swollen(archive, name, BLOCK, TIMES, content, content if lies else None)
            else:
                archive.writestr(name, content)


@pytest.mark.parametrize("lies", [True, False], ids=["lies", "true"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_member_takes_more_than_it_tells(tmp_path: Path, kind: str, lies: bool) -> None:
    name, member, write, read = KINDS[kind]
    write(tmp_path / name)
    _swollen(tmp_path / name, member, lies=lies)
    tracemalloc.start()
    try:
        read(tmp_path / name)
    except ReadError as error:
        assert name in str(error)
    else:
        assert lies, "what tells of gigabytes is refused"
    finally:
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert largest < MOST
