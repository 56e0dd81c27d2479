"""The help of every command: examples that work, daily options first, one spelling of each option."""

from __future__ import annotations

import shlex

import click
import pytest

from msprobe.cli.main import COMMANDS, cli, run
from msprobe.cli.options.help_text import EXAMPLES, OVERVIEW, normalized

ALL = [line for examples in (*EXAMPLES.values(), OVERVIEW) for line in examples]


def command_of(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", [None, *sorted(COMMANDS)])
def test_every_help_has_examples(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*([name] if name else []), "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("Examples:")[1].splitlines()]
    examples = OVERVIEW if name is None else EXAMPLES[name]
    assert lines[1 : len(examples) + 1] == list(examples)


@pytest.mark.parametrize("line", ALL)
def test_examples_are_understood(line: str) -> None:
    program, name, *words = shlex.split(line)
    context = click.Context(cli, token_normalize_func=normalized)
    command = command_of(name)
    with command.make_context(name, list(words), parent=context) as made:
        required = [param.name for param in command.params if param.required]
        assert program == "msprobe" and all(made.params[str(name)] for name in required)


def test_daily_options_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--help"]) == 0
    text = capsys.readouterr().out.partition("Options:")[2]
    order = ["--target_path", "--golden_path", "--output_path", "--html", "--step", "--fail-on", "--policy"]
    assert sorted(order, key=text.index) == order and "--target-path" not in text


@pytest.mark.parametrize("spelling", ["--fail-on", "--fail_on"])
def test_words_of_an_option_are_joined_either_way(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "-tp", "nowhere", "-gp", "nowhere", spelling, "diverged"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_wrong_option_is_told_as_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--no-such-thing"]) == 2
    assert "--no-such-thing" in capsys.readouterr().err
