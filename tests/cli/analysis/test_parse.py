"""``msprobe parse`` and its older commands."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli.main import run
from tests.core.tensor_files.files import Tensor, acl_file, atb_file

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
KERNEL = "Add.add.1.2.1700000000000000"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A folder with a file of ATB and one of ACL."""
    (tmp_path / "a.bin").write_bytes(atb_file(Tensor(VALUES, 0)))
    (tmp_path / KERNEL).write_bytes(acl_file([], [Tensor(VALUES, 1)]))
    return tmp_path


def test_converted_and_shown(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", "-d", str(dump), "-t", "npy", "-o", str(dump / "out")]) == 0
    assert sorted(path.name for path in (dump / "out").iterdir()) == [f"{KERNEL}.output.0.npy", "a.npy"]
    assert "2 tensors written, 0 not read" in capsys.readouterr().out
    assert run(["parse", "-d", str(dump / "a.bin"), "--show"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "a",
        "float32",
        "[2,",
        "3]",
        "ND",
        "5",
        "0",
        "2.5",
        "7.4162",
    ]


def test_older_commands(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(dump / "out")
    assert run(["parse", "cad", "-m", str(dump), "-out", out, "-asc", "anything"]) == 0
    assert run(["parse", "dc", "-n", str(dump / KERNEL), "-f", "NCHW", "-out", out]) == 0
    assert run(["parse", "vc", "-m", str(dump / "a.bin"), "-g", str(dump / "a.bin"), "-out", out]) == 0
    assert run(["parse", "pt", "-n", str(dump / "a.bin")]) == 0
    assert (dump / "a.txt").read_text() == "0 1 2\n3 4 5\n"
    np.save(dump / "b.npy", VALUES + 1)
    assert run(["parse", "cn", "-m", str(dump / "a.bin"), "-g", str(dump / "b.npy")]) == 1
    assert "6 of 6 elements differ" in capsys.readouterr().out


def test_commands_of_standard_input(
    dump: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f"# a note\n\nfoo\ndc -n {dump}/absent\npt -n {dump}/a.bin\nquit\npt -n {dump}/never\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run(["parse"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("Error: ") == 2 and "[msprobe]" not in captured.err
    assert "a.txt" in captured.out
    monkeypatch.setattr("sys.stdin", io.StringIO(f"dc -n {dump}/a.bin -out {dump}/out"))
    assert run(["parse"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["parse"]) == 2
    assert "give -d FILE or DIR" in capsys.readouterr().err


def test_names_and_files_that_nobody_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    for name in (b"b\xff\x1b[31m.bin", b"new\nline.bin", b"=cmd.bin", b"%2e%2e%2fx.bin"):
        Path(os.fsdecode(os.fsencode(dump) + b"/" + name)).write_bytes(atb_file(Tensor(VALUES, 0)))
    for number in range(30):
        (dump / f"junk{number}").write_bytes(b"\x00" * number)
    out = str(tmp_path / "out")
    assert run(["parse", "-d", str(dump), "-t", "npy", "-o", out]) == 1
    captured = capsys.readouterr()
    assert "4 tensors written, 30 not read" in captured.out and "... and 10 more" in captured.err
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert run(["parse", "-d", str(dump), "--show"]) == 1
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 35 and "\x1b" not in shown
    assert run(["parse", "vc", "-m", str(dump), "-g", str(dump), "-out", out]) == 1
    assert "34 tensors: 30 differ or could not be compared" in capsys.readouterr().out
    (table,) = (tmp_path / "out").glob("batch_compare_*.csv")
    assert table.read_bytes().count(b"pass") == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-d", "bad"], "bad: its format is not known"),
        (["-d", "bad", "--show"], "bad: its format is not known"),
        (["-d", "empty"], "empty: its format is not known"),
        (["-d", "nothing"], "nothing: no such file or folder"),
        (["-d", "bare"], "bare: no tensor files in it; --recursive looks into its folders"),
        (["-d", "a.bin", "-o", "bad/out"], "bad"),
        (["-d", "a.bin", "-t", "csv"], "'csv' is not one of"),
        (["-d", "a.bin", "dc"], "-d stands without the command"),
        (["pt", "-n", "bad"], "bad: its format is not known"),
        (["cn", "-m", "a.bin", "-g", "bad"], "bad: its format is not known"),
        (["cn", "-m", "a.bin", "-g", "a.bin", "-p", "-1"], "-1 is not in the range"),
        (["vc", "-m", "a.bin", "-g", "bare"], "bare: no tensor files in it"),
        (["vc", "-m", "a.bin"], "--golden_dump_path"),
        (["pk", "-f", "x", "-n", "y"], "pk is not supported: msprobe parse -d FILE --show"),
    ],
)
def test_wrong_inputs_are_one_line(
    dump: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dump)
    (dump / "bad").write_bytes(b"\xff" * 9)
    (dump / "empty").write_bytes(b"")
    (dump / "bare").mkdir()
    (dump / "bare" / "notes.json").write_text("{}")
    assert run(["parse", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_pk_of_the_interactive_form(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("pk -f x -n y\nquit\n"))
    assert run(["parse"]) == 2
    assert capsys.readouterr().err == (
        "Error: pk is not supported: msprobe parse -d FILE --show prints what a dump file holds\n"
    )
