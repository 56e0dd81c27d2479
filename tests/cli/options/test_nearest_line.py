"""A wrong line is answered with the nearest right one, which the command understands."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from msprobe.cli.main import cli, run
from msprobe.cli.options.help_text import normalized

LINES = [
    ("compare", "compare TARGET GOLDEN"),
    ("compare bad", "compare bad GOLDEN"),
    ("compare bad --xlsx -o out", "compare bad GOLDEN --xlsx -o out"),
    ("compare -tp bad", "compare -tp bad -gp GOLDEN"),
    ("-f pytorch compare -tp bad", "-f pytorch compare -tp bad -gp GOLDEN"),
    ("compare -lm folder folder", "compare folder folder -lm"),
    ("compare bad good --fuzzy", "compare bad good --fuzzy_match"),
    ("compare bad good --html-file=x.html", "compare bad good --html=x.html"),
    ("compare --golden good --target bad", "compare --golden_path good --target_path bad"),
    ("compare bad good --threshold 3", "compare bad good"),
    ("compare bad good -xyz", "compare bad good"),
    ("compare bad good more", "compare bad good"),
    ("check -i run", "check run"),
    ("check --input_path=run", "check run"),
    ("view -i graphs", "view graphs"),
    ("overflow_check -tp run", "overflow_check run"),
    ("overflow_check", "overflow_check DUMP"),
    ("api_precision_compare -gp good -tp bad", "api_precision_compare bad good"),
    ("validate -c config.json", "validate config.json"),
    ("doctor --config config.json", "doctor config.json"),
    ("data2db run trend", "data2db run -o trend"),
    ("graph_visualize bad good graphs", "graph_visualize bad good -o graphs"),
    ("graph_visualize run", "graph_visualize run -o PATH"),
    ("import -i kernels", "import kernels -o PATH"),
    ("accept", "accept RESULT --reason TEXT"),
    ("acc_check", "acc_check DUMP"),
    ("parse vc bad", "parse vc bad GOLDEN"),
    ("overflow_check --inpt 'a run'", "overflow_check --input 'a run'"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("wrong", "right"), LINES, ids=[wrong for wrong, _ in LINES])
def test_a_wrong_line_shows_the_nearest_right_one(
    wrong: str, right: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(wrong)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"; try: msprobe {right} (see msprobe " in line
    assert not list(place.glob("out*"))


@pytest.mark.parametrize("right", dict.fromkeys(right for _, right in LINES if not right.startswith(("-f", "parse"))))
def test_what_is_shown_is_understood(right: str) -> None:
    name, *words = shlex.split(right)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, words, token_normalize_func=normalized)


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "a", "b", "--fuzzy", "--pair", "name"],  # another error remains
        ["compare", "a", "b", "--fuzzy", "--help"],
        ["noise", *(f"run{number}" for number in range(200)), "--outputs", "x"],  # too long for a line
        ["compare", "a\nb", "c", "--fuzzy"],
        ["run"],
        ["--wrong"],
    ],
    ids=["other-error", "help", "long", "no-text", "program", "no-command"],
)
def test_nothing_is_shown_where_no_line_is_near(
    words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and "try:" not in err


def test_no_help_is_shown_in_the_place_of_an_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["acc_check", "--wrong", "run", "-jh"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "--wrong" in err


def test_nothing_runs_while_a_line_is_looked_for(place: Path) -> None:
    (place / "run").mkdir()
    assert run(["data2db", "run", "trend"]) == 2
    assert not (place / "trend").exists()
