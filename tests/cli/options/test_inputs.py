"""Bare paths and options name the same inputs, in every command; lists of words end where paths go on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from msprobe.cli.main import COMMANDS, cli, run
from msprobe.cli.options.help_text import normalized

PAIRS = [
    ("compare A B -o out", "compare -tp A -gp B -o out"),
    ("compare -gp B A", "compare -tp A -gp B"),
    ("compare -m offline_data A B", "compare -m offline_data -tp A -gp B"),
    ("split_inputs A B", "split_inputs -tp A -gp B"),
    ("graph_visualize A -o out", "graph_visualize -tp A -o out"),
    ("graph_visualize A B -o out", "graph_visualize -tp A -gp B -o out"),
    (
        "graph_visualize -o out --rank-size 8 4 --tp=2 4 --pp 1 A B",
        "graph_visualize A B -o out --rank_size 8 --rank_size 4 --tp 2 --tp 4 --pp 1",
    ),
    (
        "graph_visualize -o out --order tp-dp-pp pp-dp-tp A",
        "graph_visualize -tp A -o out --order tp-dp-pp --order pp-dp-tp",
    ),
    ("overflow_check A", "overflow_check -i A"),
    ("nan_analyze A", "nan_analyze -i A"),
    ("acc_check A -d cpu 0 npu:1", "acc_check -api_info A -d cpu -d 0 -d npu:1"),
    ("multi_acc_check -d cpu npu:1 .", "multi_acc_check -api_info . -d cpu -d npu:1"),
    ("run_ut A", "run_ut -api_info A"),
    ("multi_run_ut A", "multi_run_ut -api_info A"),
    ("run_overflow_check A", "run_overflow_check -api_info A"),
    ("api_precision_compare A B", "api_precision_compare -npu A -gpu B"),
    ("data2db A -o out", "data2db -i A -o out"),
    ("merge_result A B", "merge_result -i A -c B"),
    ("code_mapping A B", "code_mapping --ir A -i B"),
    ("offline_dump A", "offline_dump --model_path A"),
    ("anomaly_processor A -k 3", "anomaly_processor -d A -k 3"),
    ("parse ./A -t npy", "parse -d ./A -t npy"),
    ("parse -t npy ./A --show", "parse -d ./A -t npy --show"),
]  # fmt: skip
WITHOUT_PATHS = {"install_deps", "support", "run"}
"""They have no input, or the words of another program."""


def parsed(line: str) -> dict[str, Any]:
    name, *words = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    with command.make_context(name, words, token_normalize_func=normalized) as context:
        return dict(context.params)


@pytest.mark.parametrize(("bare", "named"), PAIRS, ids=[bare for bare, _ in PAIRS])
def test_a_bare_path_is_the_input_that_an_option_names(bare: str, named: str) -> None:
    assert parsed(bare) == parsed(named)


def test_every_command_takes_paths() -> None:
    for name in COMMANDS.keys() - WITHOUT_PATHS - {"parse"}:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        assert arguments, name
        usage = " ".join(command.collect_usage_pieces(click.Context(command)))
        assert any(letter.isupper() for letter in usage.replace("[OPTIONS]", "")), usage


def test_a_path_that_is_given_by_name_too_is_too_much(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["overflow_check", "-i", "A", "B"]) == 2
    assert "unexpected extra argument 'B', the paths are: DUMP" in capsys.readouterr().err


def test_the_help_names_the_paths_as_the_options_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph_visualize", "--help"]) == 0
    said = capsys.readouterr().out
    assert "[OPTIONS] TARGET [GOLDEN]" in said and "--golden_path GOLDEN" in said
    assert "Paths stand alone" in said


@pytest.mark.parametrize("command", ["dc", "pt"])
def test_commands_of_parse_take_paths(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", command, str(tmp_path / "absent")]) == 2
    assert "absent: no such file" in capsys.readouterr().err


def test_words_behind_two_dashes_are_paths() -> None:
    assert parsed("compare -- -a -b")["golden_path"] == "-b"
    assert parsed("graph_visualize -o out --tp 2 -- 4 8")["target_path"] == "4"


def test_two_paths_alone_are_compared_as_set_ups_or_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["a.zip", "b.zip"], ["-c", "a.zip", "b.zip"]):
        assert run(["config_check", *words]) == 2
        assert "a.zip: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["config_op.json"], ["-i", "config_op.json"], ["-i", "other.json"]])
def test_the_configuration_of_a_script_may_stand_alone(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("config_op.json", "other.json"):
        (tmp_path / name).write_text('{"dump_json_path": "recorded", "api_name": "Torch.abs.0"}')
    assert run(["op_generate", *words]) == 2
    assert "recorded: no such file or folder" in capsys.readouterr().err
    assert run(["op_generate", "-i", "named", "--api", "Torch.abs.0"]) == 2
    assert "named: no such file or folder" in capsys.readouterr().err
