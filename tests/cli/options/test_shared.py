"""One name for one notion, in every command."""

from __future__ import annotations

import shlex
from collections import defaultdict

import click
import pytest

from msprobe.cli.main import COMMANDS, cli, run
from msprobe.cli.options.help_text import EXAMPLES, OVERVIEW, normalized
from msprobe.cli.options.shared import SHARED, SharedOption

OTHER_MEANINGS = {
    "--format": "data2db: what lies in the input; support: how tables are printed",
    "-c": "config_check: two checkpoints",
    "-m": "compare: what is compared; install_deps: what for; run: the model",
    "--mode": "compare: what is compared; install_deps: what for",
    "keyword mode": "the same",
    "--task": "collection: what is recorded",
    "keyword task": "the same",
    "-d": "config_check: to collect a configuration",
    "--dump": "the same",
    "--step": "anomaly_processor: a list as text; elsewhere ranges of steps",
    "--device": "acc_check: several devices; run_overflow_check: one",
    "-f": "acc_check: one call of a kind; elsewhere the framework",
}
"""Names with one meaning in one command and another one in another, all from the published tool but the first."""


def options() -> list[tuple[str, click.Option]]:
    """Return all options of all commands, and those before the command."""
    found = [("", param) for param in cli.params]
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        found += [(name, param) for param in command.params]
    return [(name, param) for name, param in found if isinstance(param, click.Option)]


def shown(option: click.Option) -> list[str]:
    return option.shown if isinstance(option, SharedOption) else option.opts


ALL = options()
ONE_DECLARATION = (
    {"compare", "graph_visualize"},
    {"compare", "offline_dump"},
    {"acc_check", "multi_acc_check", "run_ut", "multi_run_ut"},
    {"multi_acc_check", "multi_run_ut"},
    {"acc_check", "multi_acc_check", "run_overflow_check", "run_ut", "multi_run_ut"},
)
"""They share ``mapping_flags`` or ``model_flags``, or the options of a check, which is one declaration too."""


def test_a_notion_has_its_names_in_every_command() -> None:
    for name, option in ALL:
        if isinstance(option, SharedOption):
            names = list(SHARED[option.name or ""].names)
            assert shown(option) in (names, names[-1:]), name


def test_what_two_commands_have_is_declared_once() -> None:
    """A spelling in two commands is that of a shared option, and a keyword as well."""
    users: dict[str, list[tuple[str, click.Option]]] = defaultdict(list)
    for name, option in ALL:
        for word in (*option.opts, f"keyword {option.name}"):
            users[word].append((name, option))
    for word, found in users.items():
        commands = {name for name, _ in found} - {"nan_analyze"}
        if len(commands) > 1 and commands not in ONE_DECLARATION and word not in OTHER_MEANINGS:
            assert all(isinstance(option, SharedOption) for _, option in found), (word, commands)


def test_no_command_shows_an_older_name() -> None:
    older = {word for _, option in ALL if isinstance(option, SharedOption) for word in option.older}
    assert {"--db", "--data", "--output", "--input", "-config", "--dump_data", "--dump"} <= older
    own = [(name, word) for name, option in ALL for word in shown(option) if word in older - set(OTHER_MEANINGS)]
    assert own == []


def test_no_name_is_that_of_two_notions() -> None:
    words = [word for notion in SHARED.values() for word in (*notion.names, *notion.older)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_no_older_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out.partition("Options:")[2].partition("Examples:")[0]
    heads = {word.rstrip(",") for line in text.splitlines() for word in line.split() if line.startswith("  -")}
    for command, option in ALL:
        if command == name and isinstance(option, SharedOption):
            assert not heads & set(option.older)


@pytest.mark.parametrize("line", [line for lines in (*EXAMPLES.values(), OVERVIEW) for line in lines])
def test_examples_use_the_names_of_today(line: str) -> None:
    _, name, *words = shlex.split(line)
    words = words[: words.index("python")] if "python" in words else words
    words = words[: words.index("--")] if "--" in words else words
    known = {word for command, option in ALL if command == name for word in shown(option)}
    assert [word for word in words if word.startswith("-") and normalized(word) not in map(normalized, known)] == []


@pytest.mark.parametrize(
    "words",
    [
        ["data2db", "--db", "db", "--data", "nowhere"],
        ["data2db", "-o", "db", "-i", "nowhere"],
        ["merge_result", "--input_dir", "nowhere", "--output_dir", "out", "-config", "nowhere"],
        ["merge_result", "-i", "nowhere", "-o", "out", "--config-path", "nowhere"],
        ["overflow_check", "--input", "nowhere", "--output", "out"],
        ["doctor", "nowhere", "--dump", "nowhere"],
        ["doctor", "nowhere", "-i", "nowhere"],
        ["code_mapping", "--ir", "nowhere", "--dump_data", "nowhere", "--output", "out"],
        ["compare", "-tp", "nowhere", "--golden-path", "nowhere", "--output", "out"],
    ],
)
def test_older_names_are_kept(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_message_names_an_option_as_the_help_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data2db", "-o", "db"]) == 2
    assert "Missing option '-i' / '--input_path'" in capsys.readouterr().err
