"""The command line as a whole: cheap help, one line per error, exit statuses."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from msprobe import __version__
from msprobe.cli import main as cli_main
from msprobe.cli.main import COMMANDS, CommandEntry, run
from msprobe.core.config.load import PACKAGED_DEFAULT
from msprobe.core.errors import MEMORY_ERROR, FileCheckException, MsprobeException, NotComparableError
from tests.rules.tree import ROOT


def msprobe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "msprobe", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """A command ``fail`` that raises or returns ``outcome["now"]``."""
    outcome: dict[str, object] = {}

    @click.command("fail")
    def command() -> object:
        if isinstance(outcome["now"], BaseException):
            raise outcome["now"]
        return outcome["now"]

    monkeypatch.setitem(COMMANDS, "fail", CommandEntry("msprobe.cli.main:fail", "Fails."))
    monkeypatch.setattr(cli_main, "fail", command, raising=False)
    yield outcome


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option: str) -> None:
    result = msprobe(option)
    assert (result.returncode, result.stdout) == (0, f"msprobe {__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_every_command_with_its_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {entry.summary}" in listed for name, entry in COMMANDS.items())


def test_help_imports_no_heavy_module() -> None:
    code = (
        "import sys; from msprobe.cli.main import COMMANDS, run; status = run(['--help']);"
        "heavy = {'numpy', 'pydantic', 'pydantic_core', 'yaml', 'torch'} & set(sys.modules);"
        "commands = {entry.target.split(':')[0] for entry in COMMANDS.values()} & set(sys.modules);"
        "sys.exit(f'{status} {heavy} {commands}' if status or heavy or commands else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_points_to_commands_of_that_name(name: str) -> None:
    module, attribute = COMMANDS[name].target.split(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_has_help_of_whole_sentences(name: str) -> None:
    module, attribute = COMMANDS[name].target.split(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    helps = {option.opts[0]: option.help or "" for option in command.params if isinstance(option, click.Option)}
    wrong = {option: text for option, text in helps.items() if not (text[:1].isalpha() and text.endswith("."))}
    assert wrong == {}
    assert {option for option, text in helps.items() if text[0].islower()} == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compair"], "no such command 'compair'; did you mean 'compare'? (see msprobe --help)"),
        (["xyz"], "no such command 'xyz'; commands: acc_check, accept, anomaly_processor, a"),
        (["--wrong"], "No such option"),
        (["validate"], "Missing argument 'CONFIG'; try: msprobe validate CONFIG (see msprobe validate --help)"),
        (["validate", "a\0b"], r"the argument 'a\x00b' holds a NUL character: remove it (see msprobe validate --help)"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("msprobe: error: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (MsprobeException(0, "first\nsecond"), 2, "Invalid parameter: first; second"),
        (FileCheckException(3, "x.json: not there"), 2, "Illegal path: x.json: not there"),
        (NotComparableError("no common step"), 3, "Not comparable: no common step"),
        (PermissionError(13, "Permission denied", "d/dump.json"), 2, "d/dump.json: Permission denied"),
        (OSError("odd"), 2, "odd"),
        (MemoryError(), 2, MEMORY_ERROR),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_an_error_is_one_line_and_a_status(
    raised: BaseException, status: int, said: str, failing: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    failing["now"] = raised
    assert run(["fail"]) == status
    err = capsys.readouterr().err
    assert err.strip() == f"msprobe: error: {said}"


def test_ctrl_c_that_a_library_turns_into_its_own_error(tmp_path: Path) -> None:
    """As an import of numpy does."""
    (tmp_path / "library.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    raise ImportError('numpy failed to import') from None\n"
    )
    code = (
        "import sys; sys.path.insert(0, '.'); from msprobe.cli import main; "
        "main.COMMANDS['fail'] = main.CommandEntry('library:fail', 'Fails.'); main.main(['fail'])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert (found.returncode, found.stderr) == (130, "msprobe: error: interrupted\n")


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (1, 1), (click.exceptions.Exit(1), 1)])
def test_a_command_chooses_its_status(returned: object, status: int, failing: dict[str, object]) -> None:
    failing["now"] = returned
    assert run(["fail"]) == status


def test_a_fault_of_ours_is_not_hidden(failing: dict[str, object]) -> None:
    failing["now"] = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError):
        run(["fail"])


@pytest.mark.parametrize("arguments", [["--help"], ["validate", str(PACKAGED_DEFAULT)]])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    code = (
        "import os, sys\n"
        "read, write = os.pipe()\n"
        "os.close(read)\n"
        "os.dup2(write, 1)\n"
        "from msprobe.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (141, "")
