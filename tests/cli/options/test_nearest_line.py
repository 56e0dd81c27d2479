"""A wrong line is answered with the nearest right one, which the command understands."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from msprobe.cli.main import COMMANDS, cli, run
from msprobe.cli.options.help_text import normalized
from tests.compare.dumps import call, tensor, write

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
    ("compare bad good --tolerance 3", "compare bad good"),
    ("check run --stpe 3", "check run"),
    ("check --stpe folder", "check folder"),
    ("check -i run", "check run"),
    ("check --input_path=run", "check run"),
    ("view -i graphs", "view graphs"),
    ("overflow_check -tp run", "overflow_check run"),
    ("overflow_check", "overflow_check DUMP"),
    ("api_precision_compare -gp good -tp bad", "api_precision_compare bad good"),
    ("validate -c config.json", "validate config.json"),
    ("noise --dump a", "noise a"),
    ("doctor --config config.json", "doctor config.json"),
    ("data2db run trend", "data2db run -o trend"),
    ("graph_visualize bad good graphs", "graph_visualize bad good -o graphs"),
    ("graph_visualize run", "graph_visualize run -o PATH"),
    ("import -i kernels", "import kernels -o PATH"),
    ("accept", "accept RESULT --reason TEXT"),
    ("acc_check", "acc_check DUMP"),
    ("parse vc bad", "parse vc bad GOLDEN"),
    ("overflow_check --inpt 'a run'", "overflow_check --input 'a run'"),
    ("trace", "trace DUMP VALUE"),
    ("trace run", "trace run VALUE"),
    ("trace run --calls 3", "trace run VALUE --calls 3"),
    ("op_generate", "op_generate DUMP --api NAME"),
    ("op_generate run --draw", "op_generate run --draw --api NAME"),
    ("op_generate -i run", "op_generate -i run --api NAME"),
    ("parse", "parse -d FILE"),
    ("run", "run -c PATH COMMAND"),
    ("run -c my.json", "run -c my.json COMMAND"),
    ("run python x.py --epochs 1", "run -c PATH python x.py --epochs 1"),
    ("run -m Net -- python x.py", "run -c PATH -m Net -- python x.py"),
    ("merge_result --folder tables --config b.yaml", "merge_result tables --config b.yaml"),
    ("merge_result --path=tables --config b.yaml", "merge_result tables --config b.yaml"),
    ("config_check", "config_check FIRST SECOND"),
    ("config_check good", "config_check good SECOND"),
    ("config_check good --fail-on error", "config_check good SECOND --fail-on error"),
    ("config_check -c", "config_check -c FIRST SECOND"),
    ("config_check -c good", "config_check -c good SECOND"),
    ("config_check --verl-compare a.log", "config_check --verl-compare a.log BENCH_LOG"),
    ("op_generate run --api", "op_generate run --api NAME"),
    ("op_generate run Functional.linear.0", "op_generate run --api Functional.linear.0"),
    ("op_generate run --api Functional.linear.0 more", "op_generate run --api Functional.linear.0"),
    ("compare bad -gp", "compare bad -gp GOLDEN"),
    ("compare bad good --xlsx=yes", "compare bad good --xlsx"),
    ("view graphs --port", "view graphs --port 1"),
    ("run --confg my.json python x.py", "run --config my.json python x.py"),
    ("run -c my.json -o out python x.py -o out", "run -c my.json python x.py -o out"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


@pytest.mark.parametrize(("wrong", "right"), LINES, ids=[wrong for wrong, _ in LINES])
def test_a_wrong_line_shows_the_nearest_right_one(
    wrong: str, right: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(wrong)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"; try: msprobe {right} (see msprobe " in line
    assert not list(place.glob("out*"))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("--tolerance", ""), ("--verbose", ""), ("--outptu", "'--output'"), ("--golden", "'--golden_path'")],
)
def test_only_a_near_option_is_offered(wrong: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "bad", "good", wrong, "3"]) == 2
    err = capsys.readouterr().err
    assert "Did you mean" in err if meant else "Did you mean" not in err
    assert meant in err


def parsed(line: str) -> click.Context:
    """Return the context of the command of a line, or of the command inside it; nothing is run."""
    words = shlex.split(line.removeprefix("-f pytorch "))
    command: click.Command | None = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command.make_context(name, words, token_normalize_func=normalized)


@pytest.mark.parametrize("right", dict.fromkeys(right for _, right in LINES))
def test_what_is_shown_is_understood(right: str, place: Path) -> None:
    context = parsed(right)
    for param in context.command.params:
        value = context.params.get(param.name or "")
        called = re.findall(r"[A-Z_]{4,}", param.metavar or f"{param.name} {param.type.name}".upper())
        for word in value if isinstance(value, tuple) else [str(value)]:
            assert not re.fullmatch("[A-Z_]{4,}", str(word)) or word in called, f"{word} is given as {param.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_without_what_it_needs_shows_a_line(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = run([name]), capsys.readouterr().err
    answers = (0, 1) if name == "install_deps" else (0, 2)  # it needs nothing, and 1 says that packages are missing
    assert status in answers and ("Missing" not in err or f"; try: msprobe {name} " in err)


REAL = {
    "TARGET": "bad",
    "GOLDEN": "good",
    "DUMP": "good",
    "PATHS": "good",
    "VALUE": "Functional.linear.0.forward",
    "PATH": "out",
}


@pytest.mark.parametrize(
    "wrong",
    [
        *("compare", "compare bad", "compare -tp bad", "trace", "trace good", "overflow_check", "check", "data2db"),
        *("graph_visualize good", "graph_visualize bad good out"),
    ],
)
def test_what_is_shown_runs_with_real_files(wrong: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, scale in (("good", 1.0), ("bad", 2.0)):
        write(place / name, {REAL["VALUE"]: call([tensor()], [tensor(scale)])})
    assert run(shlex.split(wrong)) == 2
    line = capsys.readouterr().err.partition("; try: msprobe ")[2].partition(" (see ")[0]
    words = [REAL.get(word, word) for word in shlex.split(line)]
    assert run(words) in (0, 1), (words, capsys.readouterr().err)


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "a", "b", "--fuzzy", "--pair", "name"],  # another error remains
        ["compare", "a", "b", "--fuzzy", "--help"],
        ["noise", *(f"run{number}" for number in range(200)), "--outputs", "x"],  # too long for a line
        ["compare", "a\nb", "c", "--fuzzy"],
        ["--wrong"],
    ],
    ids=["other-error", "help", "long", "no-text", "no-command"],
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
