"""What stands in the head of a dump.json and nobody knows is told; another version of the format is no clean pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.cli.main import run as msprobe
from msprobe.compare.header_checks import header_notes
from msprobe.core.store.documents import DumpDocument
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

DATA = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}


def _damage(folder: Path, change: Callable[[Any], Any]) -> None:
    path = folder / "dump.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-field": ({"tool_build": 7, "extra": None}, "leaves out: extra, tool_build"),
    "level-list": ({"level": ["x"]}, "its `level` is not a text"),
    "framework-flag": ({"framework": True}, "its `framework` is not a text"),
    "framework-unknown": ({"framework": "jax"}, "made by 'jax'"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_a_header_says_and_nobody_knows_is_told(tmp_path: Path, name: str) -> None:
    target, golden = write(tmp_path / "t", DATA), write(tmp_path / "g", DATA)
    said, told = FOREIGN[name]
    _damage(target, lambda content: {**content, **said})
    summary = compare(target, golden).summary
    assert summary.verdict == "same" and told in summary.reason and not summary.incomplete


@pytest.mark.parametrize("name", ["version", "format_version", "schema_version"])
@pytest.mark.parametrize("place", ["t", "g"])
def test_another_version_of_the_format_is_no_pass_without_a_word(
    tmp_path: Path, name: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target, golden = write(tmp_path / "t", DATA), write(tmp_path / "g", DATA)
    _damage(tmp_path / place, lambda content: {name: 99, **content})
    arguments = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "o")]
    assert msprobe([*arguments, "--fail-on", "incomplete"]) == 1
    assert f"says {name} 99 of the format" in capsys.readouterr().out
    assert msprobe([*arguments, "-da", "--fail-on", "incomplete"]) == 1
    assert f"says {name} 99 of the format" in capsys.readouterr().out


def test_headers_that_say_nothing_foreign(tmp_path: Path) -> None:
    target, golden = write(tmp_path / "t", DATA), write(tmp_path / "g", DATA)
    _damage(target, lambda content: {**content, "framework": None, "kernel_source": "cpu-fallback"})
    summary = compare(target, golden).summary
    assert (summary.verdict, summary.reason, summary.incomplete) == ("same", "", [])
    _damage(target, lambda content: {key: value for key, value in content.items() if key != "framework"})
    assert compare(target, golden).summary.reason == ""
    _damage(target, lambda content: {**content, "task": "structure"})
    result = compare(target, golden)
    assert result.verdict == "not_comparable" and "tasks differ" in result.summary.reason


def test_every_field_of_the_format_is_known(tmp_path: Path) -> None:
    fields = dict.fromkeys(DumpDocument.model_fields, None)
    write(tmp_path, DATA)
    _damage(tmp_path, lambda document: {**fields, **document})
    (place,) = find_dumps(tmp_path)
    assert header_notes(load_dump(place)) == []
