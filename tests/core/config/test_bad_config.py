"""Each documented row of what a configuration may hold: the class and code of the error for what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.core.backend.support import PYTORCH, check_support
from msprobe.core.config import load_config
from msprobe.core.errors import ConfigError, FileCheckException, MsprobeException, ScopeException

API, MODULE = "Functional.relu.0.forward", "Module.fc.Linear.forward.0"
LOAD = {"path": "golden", "modules": [MODULE]}


def error_of(source: Any, **arguments: Any) -> MsprobeException:
    with pytest.raises(MsprobeException) as caught:
        check_support(load_config(source, **arguments), PYTORCH)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


def rows(key: str, *values: Any, task: str | None = None) -> list[Any]:
    """One row for each bad value of a top-level key, or with ``task`` of a key of its section."""
    built = []
    for value in values:
        raw = {"task": task, task: {key: value}} if task else {key: value}
        shown = repr(value) if len(repr(value)) < 30 else f"{repr(value)[:20]}..."
        built.append(pytest.param(raw, f"{task}.{key}" if task else key, id=f"{task or ''}.{key}={shown}"))
    return built


COMMON = [
    *rows("task", "tensors", "free_benchmark", 3, ["tensor"], "exception_dump", "acc_check"),
    *rows("dump_path", 3, ["x"], True, "", None, "a\0b", "a/" + "b" * 256, "a/" * 2100),
    *rows("rank", 3, "3", {"a": 1}, [1.5], [True], [None], [-1], [1000001], ["a"], ["1-2-3"], ["a-3"], ["3-b"]),
    *rows("rank", ["6-4"], ["0-1000001"], ["-1"], [[1]]),
    *rows("step", 3, "3", {"a": 1}, [1.5], [True], [None], [-1], [1000001], ["a"], ["6-4"], [""], ["-"]),
    *rows("level", "L3", "l1", "MIX", 1, ["L1"]),
    *rows("async_dump", "true", 1, None, []),
    *rows("extra_info", "true", 0, None, []),
    *rows("dump_enable", "true", 1, []),
    *rows("precision", "High", None, 1, ""),
    *rows("risk_level", "LOW", "focus", 1),
    *rows("custom_op_namespaces", "ns", [1], {"a": 1}),
    *rows("statistics", None, [], "x", 1),
    *rows("load", [], "x", 1),
]
SECTION = [
    *rows("scope", "x", ["x", 1], {"a": 1}, task="statistics"),
    *rows("list", "relu", [1], {"a": 1}, [""], ["name-regex(()"], task="statistics"),
    *rows("tensor_list", "relu", [1], [""], task="statistics"),
    *rows("data_mode", "forward", ["forwards"], [1], ["all", "input"], ["input"] * 5, task="statistics"),
    *rows("summary_mode", "md4", "MD5", 1, ["md5"], task="statistics"),
    *rows("slice", {"dim": 0}, "x", [1], [{"dim": -1}], [{"size": -1}], [{"begin": "1"}], task="statistics"),
    *rows("request_id", 1, ["a"], task="statistics"),
    *rows("diff_nums", "a", 0, -5, 1.5, True, task="tensor"),
    *rows("bench_path", 1, ["a"], task="tensor"),
    *rows("overflow_nums", "a", 0, -5, task="overflow_check"),
    *rows("diff_nums", "a", 0, -5, task="diff_check"),
]


@pytest.mark.parametrize(("raw", "path"), COMMON + SECTION)
def test_a_bad_value_is_named(raw: dict[str, Any], path: str) -> None:
    error = error_of({"dump_path": "x", **raw})
    assert isinstance(error, ConfigError)
    assert error.code == MsprobeException.INVALID_PARAM_ERROR
    (problem,) = error.problems
    assert problem.path.split("[")[0] == path
    assert problem.expected


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({key: value}, id=f"{key}={value!r}")
        for key, value in [
            ("task", "tensors"),
            ("task", 3),
            ("level", "L9"),
            ("level", 0),
            ("dump_path", 3),
            ("step", 3),
            ("step", [-1]),
        ]
    ],
)
def test_a_bad_argument_is_called_one(given: dict[str, Any]) -> None:
    error = error_of({"dump_path": "x"}, **given)
    assert error.code == 0
    assert "(argument)" in str(error)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        pytest.param({**LOAD, "modules": []}, "must not be an empty list", id="no modules"),
        pytest.param({**LOAD, "modules": [1]}, "must be a text", id="module not text"),
        pytest.param({**LOAD, "modules": [API]}, "full forward name", id="no module"),
        pytest.param({**LOAD, "modules": [MODULE[:-2]]}, "full forward name", id="no call number"),
        pytest.param({**LOAD, "modules": ["Module.fc.Linear.backward.0"]}, "full forward name", id="backward"),
        pytest.param({**LOAD, "modules": [MODULE, MODULE]}, "stands there twice", id="twice"),
        pytest.param({"modules": [MODULE]}, "load.path: is required", id="no path"),
        pytest.param({**LOAD, "path": ""}, "must not be empty", id="empty path"),
        pytest.param({**LOAD, "step": ["x"]}, "load.step[0]", id="step"),
        pytest.param({**LOAD, "rank": 3}, "load.rank", id="rank"),
        pytest.param({**LOAD, "dump_after_load": "yes"}, "true or false", id="dump_after_load"),
    ],
)
def test_load(load: dict[str, Any], said: str) -> None:
    error = error_of({"dump_path": "x", "load": load})
    assert error.code == 0
    assert said in str(error)


@pytest.mark.parametrize(
    ("level", "scope"),
    [
        pytest.param("L1", [API], id="one name"),
        pytest.param("L1", [API] * 3, id="three names"),
        pytest.param("L1", [API, MODULE], id="module at L1"),
        pytest.param("L0", [MODULE, API], id="API at L0"),
        pytest.param("mix", [API, "relu"], id="no full name"),
        pytest.param("L1", ["Functional.relu.0", API], id="no phase"),
    ],
)
def test_scope(level: str, scope: list[str]) -> None:
    error = error_of({"dump_path": "x", "level": level, "statistics": {"scope": scope}})
    assert isinstance(error, ScopeException)
    assert error.code == ScopeException.INVALID_SCOPE


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["", " \n", "{", "{'task': 1}", "{} x"], ids=repr)
def test_text_that_is_no_json_is_also_a_runtime_error(text: str, tmp_path: Path) -> None:
    error = error_of(write(tmp_path, "config.json", text))
    assert isinstance(error, RuntimeError)
    assert error.code == 0
    assert str(tmp_path) in str(error)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"x"'], ids=repr)
def test_a_file_that_is_no_object(text: str, tmp_path: Path) -> None:
    error = error_of(write(tmp_path, "config.json", text))
    assert error.code == 0
    assert "must be an object { }" in str(error)


@pytest.mark.parametrize("source", [3, ["config.json"], b"config.json", 1.5, True], ids=repr)
def test_a_source_of_a_wrong_type(source: Any) -> None:
    error = error_of(source)
    assert type(error) is MsprobeException
    assert error.code == 0
    assert type(source).__name__ in str(error)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    error = error_of(tmp_path / "none.json")
    assert isinstance(error, FileCheckException)
    assert error.code == FileCheckException.ILLEGAL_PATH_ERROR
    assert "working directory" in str(error)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    for path in (write(tmp_path, "config.txt", "{}"), tmp_path):
        error = error_of(path)
        assert isinstance(error, FileCheckException)
        assert error.code == FileCheckException.INVALID_FILE_ERROR
