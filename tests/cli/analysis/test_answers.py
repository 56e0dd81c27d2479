"""``msprobe answers``: lines for people, JSON for programs, and the exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from msprobe.cli.main import run

ROOT = Path(__file__).parents[3]
GOOD, LOOP = json.dumps({"text": "A short and normal answer."}), json.dumps({"text": "and again " * 80})


def file_of(folder: Path, *lines: str) -> str:
    path = folder / "answers.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_what_is_odd_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answers", file_of(tmp_path, GOOD, LOOP)]) == 0
    output = capsys.readouterr().out
    assert 'line 2: repetition, characters 0 to 798: "and again" comes 80 times running' in output
    assert "2 answers: 1 ok, 1 repetition" in output


def test_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answers", file_of(tmp_path, GOOD, LOOP), "--fail-on", "found"]) == 1
    assert run(["answers", file_of(tmp_path, GOOD), "--fail-on", "found"]) == 0
    assert run(["answers", file_of(tmp_path, GOOD, "{")]) == 2
    assert "line 2: not judged: is no JSON" in capsys.readouterr().err
    assert run(["answers", str(tmp_path / "absent")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_standard_input(tmp_path: Path) -> None:
    with open(file_of(tmp_path, GOOD, LOOP), encoding="utf-8") as lines:
        words = [sys.executable, "-m", "msprobe", "answers", "-"]
        done = subprocess.run(words, stdin=lines, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 answers: 1 ok, 1 repetition" in done.stdout


def test_json_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((ROOT / "schemas" / "answers.schema.json").read_text("utf-8"))
    nan = '{"tokens": [1, 2], "topk_logprobs": [{"1": NaN}, {"2": -0.1}]}'
    source = file_of(tmp_path, GOOD, LOOP, nan, "x")
    assert run(["answers", source, "--json", "-"]) == 2
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema)
    assert [(each["status"], each["type"]) for each in document["answers"]] == [
        ("ok", 0), ("odd", 3), ("odd", 4), ("not_judged", 0),
    ]  # fmt: skip
    assert run(["answers", source, "--json", str(tmp_path / "result.json")]) == 2
    assert json.loads((tmp_path / "result.json").read_text("utf-8")) == document


def test_thresholds_and_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, tokenizer = tmp_path / "config.yaml", tmp_path / "tokenizer.json"
    config.write_text("window_size: 1\n")
    tokenizer.write_text('{"model": {"vocab": {"again ": 0, "ok ": 1}}}')
    assert run(["answers", file_of(tmp_path, GOOD), "--config", str(config)]) == 2
    assert "window_size" in capsys.readouterr().err
    source = file_of(tmp_path, json.dumps({"tokens": [1] + [0] * 60}))
    assert run(["answers", source, "--tokenizer", str(tokenizer), "--fail-on", "found"]) == 1
    assert '"again" comes 60 times running' in capsys.readouterr().out
    assert run(["answers", source, "--tokenizer", source]) == 2
