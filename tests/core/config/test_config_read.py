"""Reading the text of a configuration: forms, extensions, and files that are none."""

import json
import os
from pathlib import Path

import pytest

from msprobe.core.config import load_config
from msprobe.core.config.load import read_source
from msprobe.core.errors import ConfigError, FileCheckException

GOOD = {"task": "tensor", "dump_path": "数据 dump", "step": [0, "2-3"], "tensor": {"list": ["relu"]}}


@pytest.mark.parametrize("name", ["c.json", "C.JSON"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_json(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(GOOD, ensure_ascii=False), encoding=encoding)
    assert load_config(path) == load_config(str(path)) == load_config(GOOD)


@pytest.mark.parametrize("name", ["c.yaml", "c.yml"])
def test_yaml(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(
        'task: tensor  # why: the loss jumps\ndump_path: "数据 dump"\nstep: [0, 2-3]\ntensor:\n  list: [relu]\n',
        encoding="utf-8",
    )
    assert load_config(path) == load_config(GOOD)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.json", '{"task": "tensor",\n "step": [1,]}', "line 2, column 1"),
        ("c.json", '{"task": "tensor"', "line 1"),
        ("c.json", "", "the file is empty"),
        ("c.json", " \n", "the file is empty"),
        ("c.json", "[]", r"got \[\]; the top level must be an object"),
        ("c.json", "3", "got 3; the top level must be an object"),
        ("c.json", "[" * 100_000, "not usable as JSON"),
        ("c.yaml", "task: [tensor", "not valid YAML at line"),
        ("c.yaml", "a: !!python/object/apply:os.getcwd []", "not valid YAML at line 1"),
        ("c.yaml", "- task", "the top level must be an object"),
        ("c.yaml", "1: task", "got 1; a key must be a text"),
        ("c.yaml", "", "the file is empty"),
    ],
)
def test_text_that_is_no_configuration(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (0, 0))  # nobody is writing it any more: nothing is waited for
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'{"dump_path": "\xff"}')
    os.utime(path, (0, 0))
    with pytest.raises(ConfigError, match="byte 15 is not UTF-8"):
        load_config(path)


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing.json", 3), ("folder.json", 0), ("c.txt", 0), ("c", 0), ("nul\0.json", 3), ("x" * 300 + ".json", 3)],
)
def test_a_path_that_cannot_be_used(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "folder.json").mkdir()
    for text in ("c.txt", "c"):
        (tmp_path / text).write_text("{}")
    with pytest.raises(FileCheckException) as caught:
        load_config(str(tmp_path / name))
    assert caught.value.code == code
    assert "\0" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(FileCheckException) as caught:
        load_config(path)
    assert caught.value.code == FileCheckException.FILE_PERMISSION_ERROR


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with path.open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    with pytest.raises(FileCheckException) as caught:
        load_config(path)
    assert caught.value.code == FileCheckException.FILE_TOO_LARGE_ERROR


def test_a_key_written_twice_is_remarked(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"level": "L0", "level": "L1"}')
    written = read_source(path)
    assert written.raw == {"level": "L1"}
    assert len(written.remarks) == 1
    assert '"level" stands there twice' in written.remarks[0]
