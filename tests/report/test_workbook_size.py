"""A workbook of some megabytes can stand for more memory than a machine has: it is refused before it is read."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.report.table_reader import read_table

xlsxwriter = pytest.importorskip("xlsxwriter")
pytest.importorskip("python_calamine")
SHEET, STRINGS, BOOK = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/workbook.xml"
ROWS = range(3, 30_000)


def _book(path: Path, rows: bytes, **changes: Callable[[bytes], bytes]) -> Path:
    """A table with a title line and two cells, to which ``rows`` are added; ``changes`` by the stem of the member."""
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet()
        page.write_row(0, 0, ["Name", "x"])
        page.write_row(1, 0, ["a", 1])
    with zipfile.ZipFile(path) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    members[SHEET] = members[SHEET].replace(b"</sheetData>", rows + b"</sheetData>")
    for name in members:
        members[name] = changes.get(Path(name).stem, bytes)(members[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _rows(cell: str) -> bytes:
    return "".join(f'<row r="{row}">{cell.replace("#", str(row))}</row>' for row in ROWS).encode()


FULL = _rows('<c r="A#" t="inlineStr"><is><t>a</t></is></c><c r="B#"><v>1</v></c>')
HARM: dict[str, tuple[bytes, dict[str, Callable[[bytes], bytes]]]] = {
    "a far cell": (_rows('<c r="A#"><v>1</v></c>') + b'<row r="30000"><c r="ZZ30000"><v>1</v></c></row>', {}),
    "a far row": (b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', {}),
    "no addresses": (
        b"<row>" + b"<c><v>1</v></c>" * 10_000 + b"</row>" + _rows("<c><v>1</v></c>").replace(b" r=", b" spans="),
        {},
    ),
    "a text in each cell": (
        _rows('<c r="A#" t="s"><v>0</v></c>'),
        {"sharedStrings": lambda data: data.replace(b"Name", b"N" * 30_000)},
    ),
    "a table in each sheet": (
        FULL,
        {
            "workbook": lambda data: data.replace(
                b"</sheets>",
                b"".join(b'<sheet name="s%d" sheetId="%d" r:id="rId1"/>' % (n, n) for n in range(2, 300))
                + b"</sheets>",
            )
        },
    ),
}


@pytest.mark.parametrize("case", HARM)
def test_a_workbook_that_stands_for_gigabytes_is_refused(tmp_path: Path, case: str) -> None:
    rows, changes = HARM[case]
    path = _book(tmp_path / "table.xlsx", rows, **changes)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ReadError, match=r"its tables take \d+ MB; no table of msprobe"):
        read_table(path)


def test_a_sheet_that_is_no_xml_is_refused(tmp_path: Path) -> None:
    path = _book(tmp_path / "table.xlsx", b'<row r="3"><c r="A3" r="XFD1048576"><v>1</v></c></row>')
    with pytest.raises(ReadError, match=r"not a workbook .*not well-formed"):
        read_table(path)


def test_a_long_table_with_few_cells_is_read(tmp_path: Path) -> None:
    titles, rows = read_table(_book(tmp_path / "table.xlsx", FULL))
    assert titles == ["Name", "x"]
    assert len(rows) == 1 + len(ROWS)
    assert rows[-1] == {"Name": "a", "x": 1}
