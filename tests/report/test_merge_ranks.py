"""Tables of many ranks side by side, from csv and from xlsx."""

import csv
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import MsprobeException, ReadError
from msprobe.jobs.compare import compare
from msprobe.report.merge_ranks import Merged, merge_results
from msprobe.report.table_reader import read_table
from tests.compare.dumps import call, tensor, write

calamine = pytest.importorskip("python_calamine")
xlsxwriter = pytest.importorskip("xlsxwriter")
CASE = Path(__file__).parents[1] / "golden_analyze" / "23_merge_result"


def _compared(folder: Path) -> Path:
    compare(CASE / "target", CASE / "golden", output=folder)
    return folder


def _as_workbooks(folder: Path) -> Path:
    """The same tables as xlsx, on two sheets."""
    for path in list(folder.glob("*.csv")):
        title, *lines = list(csv.reader(path.read_text().splitlines()))
        with xlsxwriter.Workbook(str(path.with_suffix(".xlsx"))) as book:
            for part in (lines[:7], lines[7:]):
                _fill(book.add_worksheet(), [title, *part])
        path.unlink()
    return folder


def _fill(page: Any, lines: list[list[str]]) -> None:
    for at, line in enumerate(lines):
        page.write_row(at, 0, [float(cell) if _is_number(cell) else cell for cell in line])


def _is_number(cell: str) -> bool:
    return cell.replace(".", "").lstrip("-").isdigit()


def _sheets(merged: Merged) -> dict[str, list[list[Any]]]:
    book = calamine.CalamineWorkbook.from_path(str(merged.path))
    return {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}


@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_recorded_sheets(form: str, tmp_path: Path) -> None:
    folder = _compared(tmp_path / "out")
    if form == "xlsx":
        _as_workbooks(folder)
    found = _sheets(merge_results(folder, tmp_path / "merged", CASE / "merge.yaml"))
    assert list(found) == ["Max diff", "L2norm diff", "NormRelativeErr"]
    for title, page in found.items():
        recorded = CASE / f"expected_multi_ranks_compare_merge.{title.replace(' ', '_')}.csv"
        expected = list(csv.reader(recorded.read_text().splitlines()))
        assert page[0] == expected[0] == ["NPU Name", "rank0", "rank1"]
        assert [line[0] for line in page] == [line[0] for line in expected]
        for line, want in zip(page[1:], expected[1:], strict=True):
            assert [_number(cell) for cell in line[1:]] == pytest.approx([_number(cell) for cell in want[1:]])


def _number(cell: Any) -> float:
    return float(str(cell).rstrip("%"))


def _yaml(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "merge.yaml"
    path.write_text(text)
    return path


def test_a_row_of_one_rank_and_a_cell_without_a_number(tmp_path: Path) -> None:
    alone = call([tensor()], [tensor(3.0)])
    for rank, extra in ((0, {}), (10, {"Torch.exp.7.forward": alone}), (2, {})):
        both = {"Torch.exp.0.forward": call([tensor()], [tensor()])}
        write(tmp_path / "a" / f"rank{rank}", both | extra)
        write(tmp_path / "b" / f"rank{rank}", both)
    compare(tmp_path / "a", tmp_path / "b", output=tmp_path / "out")
    merged = merge_results(tmp_path / "out", tmp_path, _yaml(tmp_path, "api: [exp]\ncompare_index: [Max diff]"))
    assert merged.ranks == ["rank0", "rank2", "rank10"]
    sheet = merged.sheets["Max diff"]
    assert sheet["Torch.exp.7.forward.output.0"] == {"rank10": "NPU:6.0  Bench:N/A"}
    assert sheet["Torch.exp.0.forward.output.0"] == {"rank0": 0, "rank2": 0, "rank10": 0}
    page = _sheets(merged)["Max diff"]
    assert page[-1] == ["Torch.exp.7.forward.output.0", "", "", "NPU:6.0  Bench:N/A"]


def test_all_metrics_unless_some_are_named(tmp_path: Path) -> None:
    merged = merge_results(_compared(tmp_path / "out"), tmp_path, _yaml(tmp_path, "api: [Torch.exp]"))
    assert len(merged.sheets) == 9 and "Requires_grad Consistent" in merged.sheets


def test_only_whole_parts_of_a_name_count(tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match="matches no row"):
        merge_results(_compared(tmp_path / "out"), tmp_path, _yaml(tmp_path, "api: [uted.all_reduce]"))


def test_the_newest_table_of_a_rank_counts(tmp_path: Path) -> None:
    folder = _compared(tmp_path / "out")
    (old,) = folder.glob("*rank0*")
    copy = folder / "compare_result_rank0_20010101000000.csv"
    copy.write_text(old.read_text().replace("0.26", "0.99"))
    merged = merge_results(folder, tmp_path, CASE / "merge.yaml")
    assert merged.notes == [f"older table left out: {copy}"]


WRONG = {
    "no_yaml": ("api: [", "not valid YAML"),
    "too_deep": ("api: " + "[" * 1500, "not valid YAML"),
    "no_api": ("compare_index: []", "api lists the calls"),
    "unknown_key": ("api: [a]\napis: [b]", "unknown key apis"),
    "no_list": ("api: exp", "api must be a list of texts"),
    "no_keys": ("- exp", "give a YAML file with api and compare_index"),
    "unknown_column": ("api: [exp]\ncompare_index: [Max]", "no column 'Max'"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_configuration_is_named(case: str, tmp_path: Path) -> None:
    text, message = WRONG[case]
    with pytest.raises(MsprobeException, match=message):
        merge_results(_compared(tmp_path / "out"), tmp_path, _yaml(tmp_path, text))


def test_one_rank_is_not_enough(tmp_path: Path) -> None:
    folder = _compared(tmp_path / "out")
    next(folder.glob("*rank1*")).unlink()
    with pytest.raises(MsprobeException, match="at least two ranks"):
        merge_results(folder, tmp_path, CASE / "merge.yaml")


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    folder = _compared(tmp_path / "out")
    next(folder.glob("*rank1*")).write_text("NPU Name,Bench Name\nonly one\n")
    with pytest.raises(ReadError, match="line 2 has 1 cells"):
        merge_results(folder, tmp_path, CASE / "merge.yaml")


def test_numbers_come_back_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,d\n1,-2.5, inf,'-x\n")
    assert read_table(path)[1] == [{"a": 1, "b": -2.5, "c": float("inf"), "d": "-x"}]


def test_a_long_text_comes_back_whole(tmp_path: Path) -> None:
    path, text = tmp_path / "table.csv", "x" * 200_000
    path.write_text(f"a,b\n1,{text}\n")
    assert read_table(path)[1] == [{"a": 1, "b": text}]
