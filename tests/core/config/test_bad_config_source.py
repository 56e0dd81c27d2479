"""Each documented row of where a configuration may not come from: no path, no file, no JSON, no folder to read from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import FileCheckException, MsprobeException
from tests.core.config.rejecting_debugger import Refusing, error_of


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (0, 0))  # nobody is writing it any more: nothing is waited for
    return path


@pytest.mark.parametrize("text", ["", " \n", "{", "{'task': 1}", "{} x"], ids=repr)
def test_text_that_is_no_json_is_also_a_runtime_error(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "config.json", text)
    error = error_of(path)
    assert isinstance(error, RuntimeError)
    assert error.code == 0
    (line,) = str(error).splitlines()
    assert f"{path}: " in line
    assert "write at least" in line if not text.strip() else "line 1, column" in line


@pytest.mark.parametrize("text", ["[]", "null", "3", '"x"'], ids=repr)
def test_a_file_that_is_no_object(text: str, tmp_path: Path) -> None:
    error = error_of(write(tmp_path, "config.json", text))
    assert error.code == 0
    (line,) = str(error).splitlines()
    assert 'must be an object { }, such as {"dump_path": "./dump"}' in line


@pytest.mark.parametrize("source", [3, ["config.json"], b"config.json", 1.5, True], ids=repr)
def test_a_source_of_a_wrong_type(source: Any) -> None:
    error = error_of(source)
    assert type(error) is MsprobeException
    assert error.code == 0
    kind = type(source).__name__
    assert error.error_info == f"config_path: got {kind}; give the path of a .json or .yaml file, a dict, or nothing"


@pytest.mark.parametrize(
    ("name", "code", "remedy"),
    [
        pytest.param("none.json", FileCheckException.ILLEGAL_PATH_ERROR, "(working directory: ", id="missing"),
        pytest.param("config.txt", FileCheckException.INVALID_FILE_ERROR, "must end in .json, .yaml, .yml", id="kind"),
        pytest.param("folder", FileCheckException.INVALID_FILE_ERROR, "give the path of a config file", id="folder"),
        pytest.param("a\0b.json", FileCheckException.ILLEGAL_PATH_ERROR, "a\\x00b.json", id="NUL"),
    ],
)
def test_a_path_that_is_no_configuration(name: str, code: int, remedy: str, tmp_path: Path) -> None:
    write(tmp_path, "config.txt", "{}")
    (tmp_path / "folder").mkdir()
    error = error_of(str(tmp_path / name))
    assert isinstance(error, FileCheckException)
    assert error.code == code
    (line,) = str(error).splitlines()
    assert name.partition("\0")[0] in line
    assert remedy in line


def test_a_missing_golden_dump_is_an_illegal_path(tmp_path: Path) -> None:
    golden = str(tmp_path / "none")
    error = error_of({"dump_path": "x", "task": "tensor", "tensor": {"bench_path": golden}})
    assert isinstance(error, FileCheckException)
    assert error.code == FileCheckException.ILLEGAL_PATH_ERROR
    assert error.error_info.startswith(f'tensor.bench_path: got "{golden[:40]}')
    assert error.error_info.endswith("give the dump_path of the golden run")


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "config.json", '{"dump_path": "x", "level": "L2", "async_dump": 1, "tensor": {"list": 3}}')
    error = error_of(file, task="tensor", step=[-1])
    lines = error.error_info.splitlines()
    assert [line.removeprefix(f"{file}: ").split(":")[0] for line in lines] == [
        "step[0] (argument)",
        "async_dump",
        "tensor.list",
    ]


def test_a_refused_construction_leaves_nothing_behind() -> None:
    for _ in range(2):
        assert error_of({"dump_path": "x", "level": "L9"}).code == 0
    with pytest.raises(AssertionError, match="was accepted"):
        Refusing({"dump_path": "x"})
