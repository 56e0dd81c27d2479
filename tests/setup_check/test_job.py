"""Set-ups collected and compared: the workbook, the page, and what both hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.setup_check.comparison import compare_documents
from msprobe.setup_check.job import collect_setup, collect_static, compare_setups
from msprobe.setup_check.pack import read_pack, write_pack


def test_a_static_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_TOKEN", "hunter2")
    (tmp_path / "a.sh").write_text("python t.py --lr 1")
    collect_setup([str(tmp_path / "a.sh")], tmp_path / "a.zip")
    document = read_pack(tmp_path / "a.zip")
    assert document.hyperparameters == {"a.sh": {"lr": "1"}}
    assert document.environment["NCCL_ALGO"] == "Ring"
    assert "hunter2" not in document.model_dump_json()
    assert document.packages["pydantic"]
    assert document.machine["python"]


def test_two_files_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for folder in (tmp_path, tmp_path / "b"):
        (folder / "a.sh").write_text("")
    with pytest.raises(ReadError, match="two files have this name"):
        collect_static([tmp_path / "a.sh", tmp_path / "b/a.sh"])


def test_results(tmp_path: Path) -> None:
    calamine = pytest.importorskip("python_calamine")
    static = collect_static([])
    first = static.model_copy(update={"hyperparameters": {"a": {"<b>x</b>": "=1+1", "lr": 1}}})
    second = static.model_copy(update={"hyperparameters": {"a": {"<b>x</b>": "=2+2", "lr": 1}}})
    for name, document in (("a", first), ("b", second)):
        write_pack(tmp_path / f"{name}.zip", document)
    comparison = compare_setups(tmp_path / "a.zip", tmp_path / "b.zip", tmp_path / "out", str(tmp_path / "p.html"))
    assert comparison.level == "error"
    assert list(comparison.lines())[1:] == [
        "error: hyperparameters: <b>x</b>: =1+1 against =2+2 (the two runs train differently)"
    ]
    book = calamine.CalamineWorkbook.from_path(str(tmp_path / "out/result.xlsx"))
    assert book.sheet_names == ["summary", "env", "pip", "machine", "hyperparameters"]
    assert book.get_sheet_by_name("summary").to_python()[-1] == ["hyperparameters", "error"]
    assert book.get_sheet_by_name("hyperparameters").to_python()[1][3] == "=1+1"
    page = (tmp_path / "p.html").read_text()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x" not in page
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bench", "cmp", "result.xlsx"]


def test_a_difference_that_several_sources_tell_is_one_line() -> None:
    static = collect_static([])
    first = static.model_copy(update={"hyperparameters": {"run.sh": {"lr": "1e-3"}, "arguments": {"lr": 0.001}}})
    second = static.model_copy(update={"hyperparameters": {"run.sh": {"lr": "2e-3"}, "arguments": {"lr": 0.002}}})
    lines = list(compare_documents(first, second).lines())[1:]
    assert lines == [
        "error: hyperparameters: lr: 1e-3 against 2e-3 (the optimizer moves the parameters by other amounts)"
    ]
